# Functions of both generators of roam6's configuration file.

# VALUE as a TOML string, with any content.
toml_text() {
	printf '"%s"' "$(printf '%s' "$1" | sed 's/[\\"]/\\&/g')"
}

# KEY VALUE: numbers and booleans are bare in TOML; all else is a string, including names made of digits.
toml_value() {
	case $1 in
	name | names | group | mode | protocol | *_ports | key | context) toml_text "$2"; return ;;
	esac
	case $2 in
	true | false) printf '%s' "$2" ;;
	'' | *[!0-9.-]* | ?*-* | *.*.* | - | .* | -.* | *.) toml_text "$2" ;;
	*) printf '%s' "$2" ;;
	esac
}

# The device of a network in /etc/config/network; roam6 waits for a missing one. A value that cannot be the name of a network is
# taken as a device, and never passed to OpenWrt's libraries, where the shell would evaluate it.
toml_device() {
	local device
	case $1 in
	*[!A-Za-z0-9_]*) device=$1 ;;
	*) network_get_device device "$1" || { device=$1; logger -t roam6 "network '$1' is not up: taken for a device"; } ;;
	esac
	toml_text "$device"
}
