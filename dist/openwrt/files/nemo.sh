#!/bin/sh
# Protocol handler `nemo` of netifd: an interface of that protocol in /etc/config/network is a mobile router. `ifup` starts it;
# it is up while the mobile router is registered or at home.

[ -n "$INCLUDE_ONLY" ] || {
	. /lib/functions.sh
	. ../netifd-proto.sh
	init_proto "$@"
}

proto_nemo_init_config() {
	no_device=1
	available=1
	renew_handler=1
	proto_config_add_string 'home_address:ip6addr'
	proto_config_add_string 'home_prefix:cidr6'
	proto_config_add_string 'home:or("physical","virtual")'
	proto_config_add_array 'home_agents:list(ip6addr)'
	proto_config_add_array 'home_agents_ipv4:list(ip4addr)'
	proto_config_add_array 'prefixes:list(cidr)'
	proto_config_add_int 'dynamic_ipv4:range(8,32)'
	proto_config_add_string 'key_file:file'
	proto_config_add_array 'uplinks:list(uciname)'
	proto_config_add_array 'inside:list(string)'
	proto_config_add_string 'sharing:or("single","standby","weights")'
	proto_config_add_string 'data_plane:or("auto","bpf","ip6tnl")'
	proto_config_add_string 'firewall:or("obey","bypass")'
	proto_config_add_string 'more:file'
}

# Generates the configuration file. If roam6 would refuse it, reports the reason to netifd and keeps the former file.
nemo_write() {
	local config=$1 file=$2 why
	mkdir -p /var/etc
	why=$( ( umask 077; /usr/lib/roam6/nemo-to-toml "$config" 2>&1 > "$file.new" ) &&
		/usr/sbin/roam6 check "$file.new" 2>&1 ) && mv "$file.new" "$file" && return
	proto_notify_error "$config" WRONG_SETTINGS "$why"
	logger -t roam6 "interface '$config': $why"
	return 1
}

proto_nemo_setup() {
	local config=$1 file=/var/etc/roam6-$1.toml
	nemo_write "$config" "$file" || { proto_block_restart "$config"; return 1; }
	proto_run_command "$config" /usr/lib/roam6/netifd-run "$config" "$file"
}

# Bindings survive: the daemon reloads its file (SIGHUP).
proto_nemo_renew() {
	nemo_write "$1" "/var/etc/roam6-$1.toml" && proto_kill_command "$1" 1
}

proto_nemo_teardown() {
	proto_kill_command "$1"
}

[ -n "$INCLUDE_ONLY" ] || add_protocol nemo
