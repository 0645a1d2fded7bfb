'use strict';
/* In place of LuCI, which is in no package registry: the parts of its client side that the pages of luci-app-roam6 use, as
 * https://openwrt.github.io/luci/jsapi/ documents them. What is not documented there is not here: its use is an error. */

const modules = {};

class Base {
	static extend(properties) {
		const Extended = class extends this {};
		Object.assign(Extended.prototype, properties);
		return Extended;
	}
}

/* dom: a bare string is HTML, members of an array are nodes or text. */
const dom = {
	append(node, children) {
		if (Array.isArray(children))
			children.filter(child => child != null).forEach(child => node.append(child instanceof Node ? child : String(child)));
		else if (children instanceof Node)
			node.append(children);
		else if (children != null)
			node.innerHTML = String(children);
		return node;
	},
	content(node, children) {
		node.replaceChildren();
		return dom.append(node, children);
	},
	create(tag, attributes, children) {
		const plain = attributes != null && typeof attributes === 'object' && !Array.isArray(attributes) && !(attributes instanceof Node);
		const node = Array.isArray(tag) ? dom.append(document.createDocumentFragment(), tag) : document.createElement(tag);
		for (const [ name, value ] of Object.entries(plain ? attributes : {})) {
			if (typeof value === 'function')
				node.addEventListener(name, value);
			else if (value != null)
				node.setAttribute(name, value);
		}
		return dom.append(node, plain ? children : attributes);
	},
};
modules.dom = dom;
window.E = dom.create;
window._ = text => text;
window.L = { url: (...parts) => '/cgi-bin/luci/' + parts.join('/') };

const poll = { add(callback, seconds) { setInterval(callback, seconds * 1000); return true; } };
modules.poll = poll;

/* rpc: a result that is not of the expected kind is replaced by the expected value. */
const kind = value => Object.prototype.toString.call(value);
const rpc = {
	declare(call) {
		return async (...values) => {
			const given = Object.fromEntries((call.params || []).map((name, at) => [ name, values[at] ]));
			const body = { jsonrpc: '2.0', id: 1, method: 'call', params: [ '0'.repeat(32), call.object, call.method, given ] };
			const answer = await fetch('/ubus', { method: 'POST', body: JSON.stringify(body) });
			const { result } = await answer.json();
			let value = result.length > 1 ? result[1] : result[0];
			for (const [ key, wanted ] of Object.entries(call.expect || {})) {
				value = key === '' || value == null ? value : value[key];
				value = kind(value) === kind(wanted) ? value : wanted;
			}
			return value;
		};
	},
};
modules.rpc = rpc;

const uci = {
	sections_: {},
	async load(config) {
		if (!(config in uci.sections_))
			uci.sections_[config] = await (await fetch('/uci/' + config)).json();
	},
	sections: (config, type) => uci.sections_[config].filter(section => type == null || section['.type'] === type),
	section_: (config, id) => uci.sections_[config].find(section => section['.name'] === id),
	get: (config, id, option) => uci.section_(config, id)?.[option] ?? null,
	set(config, id, option, value) { uci.section_(config, id)[option] = value; },
	unset(config, id, option) { delete uci.section_(config, id)[option]; },
	add(config, type) {
		const id = 'new' + uci.sections_[config].length;
		uci.sections_[config].push({ '.name': id, '.type': type, '.anonymous': true });
		return id;
	},
	remove(config, id) { uci.sections_[config] = uci.sections(config).filter(section => section['.name'] !== id); },
	async save() {
		for (const [ config, sections ] of Object.entries(uci.sections_))
			await fetch('/uci/' + config, { method: 'POST', body: JSON.stringify(sections) });
	},
};
modules.uci = uci;

class Table {
	constructor(captions, options, placeholder) {
		[ this.captions, this.options, this.placeholder, this.rows ] = [ captions, options, placeholder, [] ];
	}
	update(rows) { this.rows = rows; return this; }
	render() {
		const cell = (tag, value) => E(tag, {}, value instanceof Node || Array.isArray(value) ? value : String(value));
		const rows = this.rows.map(row => {
			if (row.length !== this.captions.length)
				throw new Error('a row of ' + row.length + ' cells in a table of ' + this.captions.length);
			return E('tr', { 'class': 'tr' }, row.map(value => cell('td', value)));
		});
		const empty = [ E('tr', {}, [ E('td', { 'colspan': this.captions.length }, this.placeholder) ]) ];
		return E('table', this.options, [ E('tr', {}, this.captions.map(caption => cell('th', caption))) ]
			.concat(rows.length ? rows : empty));
	}
}
const ui = {
	Table,
	createHandlerFn: (context, handler, ...given) => async event => {
		const button = event.currentTarget;
		button.disabled = true;
		try {
			await (typeof handler === 'string' ? context[handler] : handler).call(context, ...given, event);
		} finally {
			button.disabled = false;
		}
	},
};
modules.ui = ui;

/* Types of values, of those that are documented; an unknown one is an error. */
const ip6 = text => /^[0-9a-f:]+(:\d+\.\d+\.\d+\.\d+)?$/i.test(text) && text.includes(':');
const ip4 = text => /^\d+\.\d+\.\d+\.\d+$/.test(text);
const length = (text, is, most) => { const [ address, bits ] = text.split('/'); return is(address) && /^\d+$/.test(bits) && bits <= most; };
const TYPES = {
	string: () => true,
	file: () => true,
	uciname: text => /^[A-Za-z0-9_]+$/.test(text),
	uinteger: text => /^\d+$/.test(text),
	range: (text, least, most) => /^\d+$/.test(text) && +text >= least && +text <= most,
	portrange: text => /^\d+(-\d+)?$/.test(text),
	ip6addr: (text, nomask) => ip6(nomask ? text : text.split('/')[0]),
	ip4addr: (text, nomask) => ip4(nomask ? text : text.split('/')[0]),
	cidr6: text => length(text, ip6, 128),
	cidr: text => length(text, ip6, 128) || length(text, ip4, 32),
};
function isOfType(datatype, text) {
	const [ , name, given ] = /^(\w+)(?:\((.*)\))?$/.exec(datatype) || [];
	if (!TYPES[name])
		throw new Error('no such datatype: ' + datatype);
	return TYPES[name](text, ...(given ? given.split(',').map(word => JSON.parse(word)) : []));
}

class AbstractValue extends Base {
	constructor(section, name, title, description) {
		super();
		Object.assign(this, { section, option: name, title, description, rmempty: true, optional: false, choices: [] });
	}
	value(key, title) { this.choices.push([ key, title ?? key ]); }
	load(id) { return uci.get(this.section.map.config, id, this.option); }
	async field(id) {
		const value = await this.load(id);
		const input = this.input(value ?? this.default ?? null, this.section.map.config + '.' + id + '.' + this.option);
		this.section.map.fields.push([ this, id, input ]);
		return E('div', { 'class': 'cbi-value' }, [
			E('label', { 'class': 'cbi-value-title', 'for': input.id }, this.title),
			E('div', { 'class': 'cbi-value-field' }, [ input, E('div', { 'class': 'cbi-value-description' }, this.description) ]),
		]);
	}
	parts(text) { return text === '' ? [] : [ text ]; }
	isValid(id, text) {
		if (text === '')
			return this.rmempty || this.optional;
		return this.parts(text).every(part => (!this.datatype || isOfType(this.datatype, part)) &&
			(!this.validate || this.validate(id, part) === true));
	}
	write(id, value) { uci.set(this.section.map.config, id, this.option, value); }
	parse(id, text) {
		if (text === '' || (text === this.default && this.rmempty))
			uci.unset(this.section.map.config, id, this.option);
		else
			this.write(id, text);
	}
}
class Value extends AbstractValue {
	input(value, id) {
		const choices = E('datalist', { 'id': id + '-choices' }, this.choices.map(([ key, title ]) => E('option', { 'value': key }, [ title ])));
		document.body.append(choices);
		const input = E('input', { id, 'type': 'text', 'placeholder': this.placeholder, 'list': choices.id });
		input.value = value ?? '';
		return input;
	}
	read(input) { return input.value.trim(); }
}
/* A text with a line for each member. */
class DynamicList extends AbstractValue {
	input(value, id) {
		const input = E('textarea', { id, 'rows': 2, 'cols': 40 });
		input.value = [].concat(value ?? []).join('\n');
		return input;
	}
	read(input) { return input.value.trim(); }
	parts(text) { return text.split(/\s+/).filter(Boolean); }
	write(id, text) { super.write(id, this.parts(text)); }
}
class ListValue extends AbstractValue {
	input(value, id) {
		const input = E('select', { id }, this.choices.map(([ key, title ]) => E('option', { 'value': key }, [ title ])));
		input.value = value ?? '';
		return input;
	}
	read(input) { return input.value; }
}
class Flag extends AbstractValue {
	constructor(...given) { super(...given); Object.assign(this, { enabled: '1', disabled: '0', default: '0' }); }
	input(value, id) {
		const input = E('input', { id, 'type': 'checkbox' });
		input.checked = value === this.enabled;
		return input;
	}
	read(input) { return input.checked ? this.enabled : this.disabled; }
}

class AbstractSection extends Base {
	constructor(map, title, description) {
		super();
		Object.assign(this, { map, title, description, options: [], tabs: [] });
	}
	tab(name, title) { this.tabs.push([ name, title ]); }
	option(Option, ...given) {
		if (this.tabs.length)
			throw new Error('a section with tabs has no options beside them');
		return this.add(Option, given);
	}
	taboption(tab, Option, ...given) {
		if (!this.tabs.some(([ name ]) => name === tab))
			throw new Error('no such tab: ' + tab);
		return this.add(Option, given);
	}
	add(Option, given) {
		const option = new Option(this, ...given);
		this.options.push(option);
		return option;
	}
	async node(id) {
		const node = E('div', { 'class': 'cbi-section-node', 'data-section': id });
		for (const option of this.options)
			node.append(await option.field(id));
		return node;
	}
	async render() {
		const node = E('div', { 'class': 'cbi-section', 'data-type': this.type }, [ E('h3', {}, this.title), E('p', {}, this.description) ]);
		for (const id of this.ids())
			node.append(await this.node(id));
		if (this.addremove)
			node.append(E('button', { 'class': 'cbi-button-add', 'click': async event => {
				event.target.before(await this.node(uci.add(this.map.config, this.type)));
			} }, [ 'Add' ]));
		return node;
	}
}
class NamedSection extends AbstractSection {
	constructor(map, id, type, ...given) { super(map, ...given); Object.assign(this, { id, type }); }
	ids() { return [ this.id ]; }
}
class TypedSection extends AbstractSection {
	constructor(map, type, ...given) { super(map, ...given); this.type = type; }
	ids() { return uci.sections(this.map.config, this.type).map(section => section['.name']); }
}
class GridSection extends TypedSection {}

const maps = [];
class FormMap extends Base {
	constructor(config, title, description) {
		super();
		Object.assign(this, { config, title, description, sections: [], fields: [] });
		maps.push(this);
	}
	section(Section, ...given) {
		const section = new Section(this, ...given);
		this.sections.push(section);
		return section;
	}
	async render() {
		await uci.load(this.config);
		const node = E('div', { 'class': 'cbi-map' }, [ E('h2', {}, this.title), E('div', {}, this.description) ]);
		for (const section of this.sections)
			node.append(await section.render());
		return node;
	}
	save() {
		const wrong = this.fields.filter(([ option, id, input ]) => {
			const good = option.isValid(id, option.read(input));
			input.classList.toggle('invalid', !good);
			return !good;
		});
		if (wrong.length)
			return Promise.reject(new Error('invalid'));
		this.fields.forEach(([ option, id, input ]) => option.parse(id, option.read(input)));
		return uci.save();
	}
}
modules.form = { Map: FormMap, NamedSection, TypedSection, GridSection, Value, DynamicList, ListValue, Flag };

class Protocol extends Base {
	_ubus() { return null; }
}
const protocols = {};
modules.network = {
	errors: {},
	async getNetworks() {
		await uci.load('network');
		return uci.sections('network', 'interface').map(section => ({ getName: () => section['.name'] }));
	},
	registerErrorCode(code, message) { this.errors[code] = message; return true; },
	registerProtocol(name, methods) { return protocols[name] = Protocol.extend(methods); },
	getIfnameOf: device => typeof device === 'string' ? device : device.getName(),
};

class View extends Base {
	async show() {
		const node = await this.render(await (this.load ? this.load() : null));
		dom.content(document.querySelector('#view'), node);
		if (this.handleSave !== null)
			document.querySelector('#view').append(E('button', { 'id': 'save', 'click': () => {
				Promise.all(maps.map(map => map.save())).then(() => document.body.dataset.saved = 'yes', error => document.body.dataset.saved = error.message);
			} }, [ 'Save & Apply' ]));
		document.body.dataset.ready = 'yes';
	}
}
modules.view = View;

/* A module begins with directives that name what it needs; its names are arguments of a function with its text. */
async function require_(name) {
	const source = await (await fetch('/luci-static/resources/' + name.replaceAll('.', '/') + '.js')).text();
	const needs = [ ...source.matchAll(/^'require ([\w.]+)(?: as (\w+))?';$/gm) ].map(([ , module, as ]) => {
		if (!modules[module])
			throw new Error('no such module: ' + module);
		return [ as ?? module, modules[module] ];
	});
	return new Function(...needs.map(([ as ]) => as), source)(...needs.map(([ , module ]) => module));
}

/* As the page of an interface does it, in the network settings. */
async function protocolPage(name) {
	const Handler = await require_('protocol.' + name);
	const handler = Object.assign(new Handler(), { sid: name });
	const map = new FormMap('network', handler.getI18n());
	const section = map.section(NamedSection, name, 'interface', name);
	section.tab('general', 'General');
	section.tab('advanced', 'Advanced');
	handler.renderFormOptions(section);
	document.body.dataset.device = [ handler.containsDevice('nemo0-1'), handler.containsDevice('eth0'), handler.isFloating() ];
	const Page = View.extend({ render: () => map.render() });
	return new Page().show();
}

(async () => {
	const path = location.pathname.replace('/cgi-bin/luci/', '');
	if (path === 'admin/network/network')
		return protocolPage('nemo');
	const entry = (await (await fetch('/menu')).json())[path];
	document.title = entry.title;
	const Page = await require_('view.' + entry.action.path.replaceAll('/', '.'));
	return new Page().show();
})().catch(error => { document.body.dataset.ready = error.stack; console.error(error.stack); });
