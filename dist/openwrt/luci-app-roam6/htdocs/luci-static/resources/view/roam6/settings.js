'use strict';
'require form';
'require network';
'require view';

/* A choice of words, by default that of the program. */
function choice(section, name, title, help, words) {
	const option = section.option(form.ListValue, name, title, help);
	option.value('', _('(default)'));
	words.forEach(word => option.value(word));
	option.rmempty = true;
	option.optional = true;
	return option;
}

function text(section, name, title, help, datatype, placeholder) {
	const option = section.option(form.Value, name, title, help);
	option.datatype = datatype;
	option.placeholder = placeholder;
	option.optional = true;
	return option;
}

function needed(option) {
	option.optional = false;
	option.rmempty = false;
	return option;
}

function list(section, name, title, help, datatype) {
	const option = section.option(form.DynamicList, name, title, help);
	option.datatype = datatype;
	option.optional = true;
	return option;
}

/* Of the settings only `enabled` of the first section is a boolean of UCI; roam6 knows true and false. */
function flag(section, name, title, help) {
	const option = section.option(form.Flag, name, title, help);
	option.enabled = 'true';
	option.disabled = 'false';
	option.default = 'false';
	return option;
}

function ofNetwork(section, name, networks) {
	const option = section.option(form.Value, name, _('Network'), _('An interface of this router, or in place of it the option "interface" of the file.'));
	networks.map(network => network.getName()).filter(name => name !== 'loopback').forEach(name => option.value(name));
	option.datatype = 'uciname';
	option.optional = true;
	return option;
}

function several(map, type, title, help) {
	const section = map.section(form.GridSection, type, title, help);
	section.anonymous = true;
	section.addremove = true;
	section.sortable = true;
	return section;
}

function atMostOne(map, type, title, help) {
	const section = map.section(form.TypedSection, type, title, help);
	section.anonymous = true;
	section.addremove = true;
	return section;
}

function general(map) {
	const section = map.section(form.NamedSection, 'main', 'roam6', _('This host'));
	const enabled = section.option(form.Flag, 'enabled', _('Enabled'));
	enabled.default = '0';
	enabled.rmempty = false;
	text(section, 'name', _('Name'), _('In logs and metrics'), 'string', _('host name'));
	choice(section, 'data_plane', _('Data plane'), _('BPF programs, or the tunnel devices of the kernel'), [ 'auto', 'bpf', 'ip6tnl' ]);
	choice(section, 'firewall', _('Firewall'), _('Whether packets of the fast path traverse the firewall'), [ 'obey', 'bypass' ]);
}

function mobileRouter(map) {
	const section = atMostOne(map, 'mobile_router', _('Mobile router'));
	needed(text(section, 'home_address', _('Home address'), null, 'ip6addr("nomask")'));
	needed(text(section, 'home_prefix', _('Home network prefix'), null, 'cidr6'));
	choice(section, 'home', _('Home link'), _('Virtual: there is none'), [ 'physical', 'virtual' ]);
	list(section, 'home_agents', _('Home agents'), _('The preferred first'), 'ip6addr("nomask")');
	list(section, 'home_agents_ipv4', _('Their IPv4 addresses'), _('For uplinks that have IPv4 only'), 'ip4addr("nomask")');
	needed(list(section, 'prefixes', _('Mobile network prefixes'), null, 'cidr'));
	text(section, 'dynamic_ipv4', _('IPv4 prefix to request'), _('Its length'), 'range(8,32)');
	text(section, 'key_file', _('Key file'), null, 'string', '/etc/roam6/mr.key');
	choice(section, 'sharing', _('Several uplinks'), _('Standby: the best one carries all'), [ 'single', 'standby', 'weights' ]);
	text(section, 'lifetime', _('Lifetime of bindings'), null, 'string', '10m');
}

function uplinks(map, networks) {
	const section = several(map, 'uplink', _('Uplinks'), _('The preferred first'));
	ofNetwork(section, 'network', networks);
	flag(section, 'metered', _('Metered'), _('Traffic is paid for'));
	text(section, 'cap', _('Data plan'), null, 'string', '5GB');
	choice(section, 'period', _('Its period'), null, [ 'month', 'week', 'day' ]);
	choice(section, 'beyond', _('Beyond the plan'), null, [ 'backup', 'never' ]);
	choice(section, 'transport', _('Encapsulation'), _('UDP where a network passes nothing else'), [ 'auto', 'native', 'udp' ]);
	text(section, 'weight', _('Weight'), null, 'uinteger', '1');
	text(section, 'max_rtt', _('Longest round trip'), null, 'string', '800ms');
	text(section, 'max_loss', _('Highest loss, percent'), null, 'range(0,100)', '20');
}

function insideNetworks(map, networks) {
	const section = several(map, 'ingress', _('Inside'), _('Networks of the hosts that travel along'));
	ofNetwork(section, 'network', networks);
	needed(text(section, 'prefix', _('Prefix'), _('A /64, which roam6 advertises: set the Router Advertisements of the DHCP server to disabled there'), 'cidr6'));
	list(section, 'dns', _('DNS servers'), null, 'ip6addr("nomask")');
}

function flows(map) {
	const section = several(map, 'flow', _('Flow rules'), _('The first match ties a flow to an uplink'));
	needed(text(section, 'uplink', _('Uplink'), null, 'uciname'));
	choice(section, 'protocol', _('Protocol'), null, [ 'tcp', 'udp', 'icmp', 'icmp6', 'sctp' ]);
	text(section, 'correspondent', _('Correspondent'), null, 'cidr');
	text(section, 'correspondent_ports', _('Its ports'), null, 'portrange');
	text(section, 'inside', _('Host inside'), null, 'cidr');
	text(section, 'inside_ports', _('Its ports'), null, 'portrange');
	text(section, 'dscp', _('DSCP'), null, 'string', 'ef');
}

function careOfPrefixes(map) {
	const section = atMostOne(map, 'care_of_prefixes', _('Care-of prefixes'), _('Hosts get prefixes of the visited networks, too'));
	flag(section, 'delegation', _('Request prefixes')).default = 'true';
	choice(section, 'share', _('Without a delegated prefix'), null, [ 'proxy', 'never' ]);
	choice(section, 'prefer', _('Preferred for connections'), null, [ 'home', 'care-of', 'either' ]);
}

return view.extend({
	load: function() {
		return network.getNetworks();
	},

	render: function(networks) {
		const map = new form.Map('roam6', _('roam6'),
			_('Settings of a mobile router. Those of other roles, and further keys, are in /etc/config/roam6; these pages leave them as they are.'));
		general(map);
		mobileRouter(map);
		uplinks(map, networks);
		insideNetworks(map, networks);
		flows(map);
		careOfPrefixes(map);
		return map.render();
	},
});
