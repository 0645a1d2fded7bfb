'use strict';
'require dom';
'require poll';
'require rpc';
'require ui';
'require view';

const NO_ANSWER = { error: _('rpcd does not answer: is the package complete, and is the session allowed to?') };
const callStatus = rpc.declare({ object: 'roam6', method: 'status', expect: { '': NO_ANSWER } });
const INTERVAL = 5;

/* Values come from networks too: a bare string would be HTML for E(), an array of strings is text. */
const text = value => E('span', {}, [ value == null || value === '' ? '–' : String(value) ]);

const octets = count => {
	if (count == null)
		return text(null);
	const units = [ 'B', 'kB', 'MB', 'GB', 'TB' ];
	const at = Math.min(Math.floor(Math.log10(Math.max(count, 1)) / 3), units.length - 1);
	return text((count / 1000 ** at).toFixed(at ? 1 : 0) + ' ' + units[at]);
};

const roundTrip = link => link.rtt_us == null ? text(null)
	: text((link.rtt_us / 1000).toFixed(0) + ' ms, ' + (link.loss_permille / 10) + ' %');

const remarks = link => [ link.text ].concat(link.hints || []).filter(Boolean).join('; ');

const duration = seconds => {
	const [ days, hours, minutes ] = [ seconds / 86400, seconds % 86400 / 3600, seconds % 3600 / 60 ].map(Math.floor);
	return days ? days + ' d ' + hours + ' h' : hours ? hours + ' h ' + minutes + ' min' : minutes + ' min';
};

function headline(status) {
	if (status.error)
		return _('roam6 does not run: %s').replace('%s', status.error);
	if (status.bound && status.home_agent)
		return _('bound to the home agent %s').replace('%s', status.home_agent);
	if (status.bound)
		return _('at home');
	if (status.mobile_routers_bound != null)
		return _('home agent, %d mobile routers bound').replace('%d', status.mobile_routers_bound);
	return _('not bound');
}

function facts(status) {
	const rows = [
		[ _('Name'), status.name ],
		[ _('Home address'), status.home_address ],
		[ _('Mobile network'), (status.prefixes || []).join(', ') ],
		[ _('Version'), status.version + ', ' + _('up') + ' ' + duration(status.up_s) ],
	];
	return rows.filter(row => row[1]).map(row =>
		E('tr', { 'class': 'tr' }, [
			E('td', { 'class': 'td left', 'width': '33%' }, [ row[0] ]),
			E('td', { 'class': 'td left' }, [ text(row[1]) ]),
		]));
}

function links(status) {
	const captions = [ _('Interface'), _('Role'), _('State'), _('Round trip, loss'), _('Sent'), _('Received'), _('Remarks') ];
	const table = new ui.Table(captions, { 'id': 'roam6-links' }, E('em', {}, [ _('No interfaces') ]));
	table.update((status.links || []).map(link => [
		text(link.name),
		text(link.role),
		text(String(link.state).replace(/_/g, ' ') + (link.in_use ? ', ' + _('in use') : '')),
		roundTrip(link),
		octets(link.sent_octets),
		octets(link.received_octets),
		text(remarks(link)),
	]));
	return table.render();
}

function faults(status) {
	return (status.faults || []).map(fault =>
		E('div', { 'class': 'alert-message warning' }, [ fault.home_address + ': ' + (fault.text || fault.fault) ]));
}

function render(status) {
	const good = !status.error && status.works;
	const parts = [
		E('div', { 'id': 'roam6-state', 'class': 'alert-message ' + (good ? 'success' : 'warning') }, [ headline(status) ]),
	];
	if (!status.error)
		parts.push(...faults(status), E('table', { 'class': 'table' }, facts(status)), E('h3', {}, [ _('Interfaces') ]),
			links(status));
	if (!good)
		parts.push(E('p', {}, [
			E('a', { 'href': L.url('admin/network/roam6/doctor') }, [ _('Examine it') ]), ' · ',
			E('a', { 'href': L.url('admin/network/roam6/join') }, [ _('Join by an invitation') ]),
		]));
	return parts;
}

return view.extend({
	load: function() {
		return callStatus();
	},

	render: function(status) {
		const body = E('div', {}, render(status));
		poll.add(() => callStatus().then(status => dom.content(body, render(status))), INTERVAL);
		return E('div', {}, [ E('h2', {}, [ _('roam6') ]), body ]);
	},

	handleSave: null,
	handleSaveApply: null,
	handleReset: null,
});
