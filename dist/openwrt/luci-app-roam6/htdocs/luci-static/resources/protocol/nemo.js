'use strict';
'require form';
'require network';

/* Settings of /etc/config/network for the protocol handler /lib/netifd/proto/nemo.sh: a mobile router. */

network.registerErrorCode('WRONG_SETTINGS', _('roam6 refuses the settings'));

function networksBut(own) {
	return network.getNetworks().then(networks =>
		networks.map(network => network.getName()).filter(name => name !== 'loopback' && name !== own));
}

function words(option, list) {
	option.value('', _('(default)'));
	list.forEach(word => option.value(word));
	option.optional = true;
}

/* NETWORK=PREFIX. */
function insideIsValid(section, value) {
	if (value === '' || value == null)
		return true;
	return /^[A-Za-z0-9_]+=[0-9a-fA-F:]+::?\/64$/.test(value) || _('Write NETWORK=PREFIX, with a /64 prefix, such as lan=2001:db8:100::/64');
}

return network.registerProtocol('nemo', {
	getI18n: function() {
		return _('Mobile network (roam6)');
	},

	getIfname: function() {
		return this._ubus('l3_device') || 'nemo0';
	},

	getOpkgPackage: function() {
		return 'roam6';
	},

	getPackageName: function() {
		return 'roam6';
	},

	isFloating: function() {
		return true;
	},

	isVirtual: function() {
		return true;
	},

	getDevices: function() {
		return null;
	},

	/* nemo0, or nemo0-1 and further ones with the tunnel devices of the kernel. */
	containsDevice: function(device) {
		return /^nemo0(-\d+)?$/.test(network.getIfnameOf(device));
	},

	renderFormOptions: function(section) {
		const own = this.sid;
		let option;

		option = section.taboption('general', form.Value, 'home_address', _('Home address'));
		option.datatype = 'ip6addr("nomask")';
		option.rmempty = false;

		option = section.taboption('general', form.Value, 'home_prefix', _('Home network prefix'));
		option.datatype = 'cidr6';
		option.rmempty = false;

		option = section.taboption('general', form.DynamicList, 'home_agents', _('Home agents'), _('The preferred first'));
		option.datatype = 'ip6addr("nomask")';

		option = section.taboption('general', form.DynamicList, 'home_agents_ipv4', _('Their IPv4 addresses'),
			_('For uplinks that have IPv4 only'));
		option.datatype = 'ip4addr("nomask")';

		option = section.taboption('general', form.DynamicList, 'prefixes', _('Mobile network prefixes'));
		option.datatype = 'cidr';
		option.rmempty = false;

		option = section.taboption('general', form.Value, 'key_file', _('Key file'));
		option.datatype = 'file';
		option.placeholder = '/etc/roam6/mr.key';
		option.rmempty = false;

		const uplinks = option = section.taboption('general', form.DynamicList, 'uplinks', _('Uplinks'),
			_('Networks, the preferred first'));
		option.datatype = 'uciname';
		option.load = function(id) {
			return networksBut(own).then(names => {
				names.forEach(name => uplinks.value(name));
				return form.DynamicList.prototype.load.apply(uplinks, [ id ]);
			});
		};

		option = section.taboption('general', form.DynamicList, 'inside', _('Inside'),
			_('Networks of the hosts that travel along, each with the /64 that roam6 advertises there, such as lan=2001:db8:100::/64'));
		option.validate = insideIsValid;

		option = section.taboption('advanced', form.ListValue, 'home', _('Home link'), _('Virtual: there is none'));
		words(option, [ 'physical', 'virtual' ]);

		option = section.taboption('advanced', form.ListValue, 'sharing', _('Several uplinks'),
			_('Standby: the best one carries all'));
		words(option, [ 'single', 'standby', 'weights' ]);

		option = section.taboption('advanced', form.Value, 'dynamic_ipv4', _('IPv4 prefix to request'), _('Its length'));
		option.datatype = 'range(8,32)';
		option.optional = true;

		option = section.taboption('advanced', form.ListValue, 'data_plane', _('Data plane'));
		words(option, [ 'auto', 'bpf', 'ip6tnl' ]);

		option = section.taboption('advanced', form.ListValue, 'firewall', _('Firewall'),
			_('Whether packets of the fast path traverse the firewall'));
		words(option, [ 'obey', 'bypass' ]);

		option = section.taboption('advanced', form.Value, 'more', _('Further settings'), _('A file with tables of roam6.toml'));
		option.datatype = 'file';
		option.optional = true;
	},
});
