# What both writers of roam6's configuration file need.

# Numbers and truth values are bare in TOML, all else is quoted.
toml_value() {
	case $1 in
	true | false) printf '%s' "$1" ;;
	*[!0-9]* | '') printf '"%s"' "$(printf '%s' "$1" | sed 's/[\\"]/\\&/g')" ;;
	*) printf '%s' "$1" ;;
	esac
}

# The device of a network of /etc/config/network; roam6 waits for one that is not there yet.
toml_device() {
	local device
	network_get_device device "$1" || { device=$1; logger -t roam6 "network '$1' is not up: taken for a device"; }
	printf '%s' "$device"
}
