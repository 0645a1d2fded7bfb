'use strict';
'require dom';
'require rpc';
'require ui';
'require view';

const NO_ANSWER = { error: _('rpcd does not answer: is the package complete, and is the session allowed to?') };
const callJoin = rpc.declare({ object: 'roam6', method: 'join', params: [ 'invitation', 'uplink', 'inside' ], expect: { '': NO_ANSWER } });

const words = field => field.value.split(/[\s,]+/).filter(Boolean);

function field(id, label, help, control) {
	control.id = id;
	return E('div', { 'class': 'cbi-value' }, [
		E('label', { 'class': 'cbi-value-title', 'for': id }, [ label ]),
		E('div', { 'class': 'cbi-value-field' }, [ control, E('div', { 'class': 'cbi-value-description' }, [ help ]) ]),
	]);
}

return view.extend({
	join: function(form, body) {
		return callJoin(form.invitation.value, words(form.uplink), words(form.inside)).then(result => {
			if (result.error) {
				dom.content(body, E('div', { 'class': 'alert-message danger' }, [ result.error ]));
				return;
			}
			/* The key is in it. */
			form.invitation.value = '';
			dom.content(body, [
				E('div', { 'class': 'alert-message success' }, [ _('The settings are written, and roam6 is started.') ]),
				E('p', {}, [ E('a', { 'href': L.url('admin/network/roam6/overview') }, [ _('See how far it gets') ]) ]),
				E('p', {}, [ _('What is yours to set:') ]),
				E('pre', {}, [ (result.advice || []).join('\n') ]),
			]);
		});
	},

	render: function() {
		const input = placeholder => E('input', { 'type': 'text', 'class': 'cbi-input-text', 'placeholder': placeholder });
		const form = {
			invitation: E('textarea', { 'rows': 4, 'cols': 60, 'autocomplete': 'off', 'spellcheck': 'false' }),
			uplink: input(_('found by roam6')),
			inside: input(_('found by roam6')),
		};
		const body = E('div', { 'id': 'roam6-joined' });
		return E('div', {}, [
			E('h2', {}, [ _('Join') ]),
			E('p', {}, [ _('Makes a mobile router of this router by an invitation of its home agent (roam6 invite). Settings of a roam6 that is enabled are not overwritten.') ]),
			E('div', { 'class': 'cbi-section' }, [
				field('roam6-invitation', _('Invitation'), _('All of its lines. It is a secret.'), form.invitation),
				field('roam6-uplink', _('Uplinks'), _('Devices, the preferred first, such as: wwan0 wlan0'), form.uplink),
				field('roam6-inside', _('Inside'), _('Devices of hosts that travel along, such as: br-lan'), form.inside),
			]),
			E('button', {
				'id': 'roam6-join',
				'class': 'btn cbi-button cbi-button-apply',
				'click': ui.createHandlerFn(this, 'join', form, body),
			}, [ _('Join') ]),
			body,
		]);
	},

	handleSave: null,
	handleSaveApply: null,
	handleReset: null,
});
