'use strict';
'require dom';
'require rpc';
'require ui';
'require view';

const NO_ANSWER = { error: _('rpcd does not answer: is the package complete, and is the session allowed to?') };
const callDoctor = rpc.declare({ object: 'roam6', method: 'doctor', params: [ 'quick' ], expect: { '': NO_ANSWER } });

const text = value => E('span', {}, [ value == null ? '' : String(value) ]);

/* Checks that found nothing are many: they come last. */
const ORDER = { fault: 0, warning: 1, unknown: 2, note: 3, ok: 4, skipped: 5 };

function verdict(result) {
	if (result.error)
		return E('div', { 'id': 'roam6-verdict', 'class': 'alert-message warning' }, [ result.error ]);
	const first = (result.checks || []).find(check => check.level === 'fault');
	if (!first)
		return E('div', { 'id': 'roam6-verdict', 'class': 'alert-message success' }, [ _('No fault found.') ]);
	return E('div', { 'id': 'roam6-verdict', 'class': 'alert-message danger' }, [
		E('p', {}, [ E('strong', {}, [ _('First fault') ]), ' ', text(first.id), ' ', text(first.subject) ]),
		E('p', {}, [ first.text ]),
		E('p', {}, [ E('strong', {}, [ _('Cure') ]) ]),
		E('pre', {}, [ first.cure ]),
	]);
}

function checks(result) {
	const captions = [ _('Level'), _('Check'), _('Subject'), _('Finding'), _('Cure') ];
	const table = new ui.Table(captions, { 'id': 'roam6-checks' }, E('em', {}, [ _('Nothing was examined') ]));
	const rows = (result.checks || []).slice().sort((one, other) => ORDER[one.level] - ORDER[other.level]);
	table.update(rows.map(check => [ check.level, check.id, check.subject, check.text, check.cure ].map(text)));
	return table.render();
}

return view.extend({
	examine: function(quick, body) {
		return callDoctor(quick).then(result => dom.content(body, [ verdict(result), checks(result) ]));
	},

	render: function() {
		const body = E('div', {});
		const button = (id, label, quick) => E('button', {
			'id': id,
			'class': 'btn cbi-button cbi-button-action',
			'click': ui.createHandlerFn(this, 'examine', quick, body),
		}, [ label ]);
		return E('div', {}, [
			E('h2', {}, [ _('Doctor') ]),
			E('p', {}, [ _('Follows the path of a packet from this router to the hosts inside and the home agent, and names the first thing that is wrong. Takes up to ten seconds, and sends at most some kilobytes.') ]),
			E('p', {}, [ button('roam6-examine', _('Examine'), false), ' ', button('roam6-quick', _('Without packets'), true) ]),
			body,
		]);
	},

	handleSave: null,
	handleSaveApply: null,
	handleReset: null,
});
