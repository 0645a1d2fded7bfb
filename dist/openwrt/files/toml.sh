# What both writers of roam6's configuration file need.

# VALUE as text, whatever is in it.
toml_text() {
	printf '"%s"' "$(printf '%s' "$1" | sed 's/[\\"]/\\&/g')"
}

# KEY VALUE: numbers and truth values are bare in TOML, all else is text; so are digits that name something.
toml_value() {
	case $1 in
	name | group | mode | protocol | *_ports | key | context) toml_text "$2"; return ;;
	esac
	case $2 in
	true | false) printf '%s' "$2" ;;
	'' | *[!0-9.-]* | ?*-* | *.*.* | - | .* | -.* | *.) toml_text "$2" ;;
	*) printf '%s' "$2" ;;
	esac
}

# The device of a network of /etc/config/network; roam6 waits for one that is not there yet. What cannot be the name of a
# network is one of a device, and nothing for OpenWrt's libraries, which would have the shell read it as a program.
toml_device() {
	local device
	case $1 in
	*[!A-Za-z0-9_]*) device=$1 ;;
	*) network_get_device device "$1" || { device=$1; logger -t roam6 "network '$1' is not up: taken for a device"; } ;;
	esac
	toml_text "$device"
}
