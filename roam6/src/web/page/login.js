// The form for the password: SCRAM-SHA-256 (RFC 5802, RFC 7677), so that the password does not cross the network. The hash is
// computed here, because browsers have crypto.subtle on encrypted pages only.

const USER = "roam6", TYPE = "application/scram-sha-256";
const byId = (id) => document.getElementById(id);
const utf8 = (text) => new TextEncoder().encode(text);
const toBase64 = (octets) => btoa(String.fromCharCode(...octets));
const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** The first 32 bits of the fractional part of a root of each of the first primes (FIPS 180-4, 4.2.2 and 5.3.3). */
function constants(count, root) {
  const found = [];
  for (let number = 2; found.length < count; number += 1) {
    let isPrime = true;
    for (let divisor = 2; divisor * divisor <= number; divisor += 1) if (number % divisor === 0) isPrime = false;
    if (isPrime) { const value = number ** (1 / root); found.push(((value - Math.floor(value)) * 2 ** 32) | 0); }
  }
  return found;
}
const ROUNDS = Int32Array.from(constants(64, 3)), BEGIN = Int32Array.from(constants(8, 2));
const words = new Int32Array(64);

/** One block of 64 octets (FIPS 180-4, 6.2.2). */
function compress(state, octets, at) {
  const turn = (word, bits) => (word >>> bits) | (word << (32 - bits));
  for (let index = 0; index < 16; index += 1) {
    const from = at + index * 4;
    words[index] = (octets[from] << 24) | (octets[from + 1] << 16) | (octets[from + 2] << 8) | octets[from + 3];
  }
  for (let index = 16; index < 64; index += 1) {
    const low = words[index - 15], high = words[index - 2];
    words[index] = words[index - 16] + words[index - 7] + (turn(low, 7) ^ turn(low, 18) ^ (low >>> 3)) + (turn(high, 17) ^ turn(high, 19) ^ (high >>> 10));
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let index = 0; index < 64; index += 1) {
    const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[index] + words[index]) | 0;
    const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, index) => { state[index] = (state[index] + word) | 0; });
}

/** SHA-256 of octets that follow `before` octets, which `state` has. */
function finish(state, octets, before) {
  const padded = new Uint8Array(Math.ceil((octets.length + 9) / 64) * 64);
  padded.set(octets);
  padded[octets.length] = 0x80;
  new DataView(padded.buffer).setUint32(padded.length - 4, (before + octets.length) * 8);
  for (let at = 0; at < padded.length; at += 64) compress(state, padded, at);
  const result = new DataView(new ArrayBuffer(32));
  state.forEach((word, index) => result.setInt32(index * 4, word));
  return new Uint8Array(result.buffer);
}

const sha256 = (octets) => finish(BEGIN.slice(), octets, 0);

/** HMAC with a key (RFC 2104); what depends on the key alone is computed once. */
function hmac(key) {
  const block = new Uint8Array(64);
  block.set(key.length > 64 ? sha256(key) : key);
  const [inner, outer] = [0x36, 0x5c].map((pad) => {
    const state = BEGIN.slice();
    compress(state, block.map((octet) => octet ^ pad), 0);
    return state;
  });
  return (octets) => finish(outer.slice(), finish(inner.slice(), octets, 64), 64);
}

const xor = (one, other) => one.map((octet, index) => octet ^ other[index]);

function salted(password, salt, iterations) {
  const mac = hmac(password);
  let last = mac(Uint8Array.from([...salt, 0, 0, 0, 1])), sum = last;
  for (let index = 1; index < iterations; index += 1) { last = mac(last); sum = xor(sum, last); }
  return sum;
}

async function send(body) {
  const answer = await fetch("/api/login", { method: "POST", headers: { "Content-Type": TYPE }, body, signal: AbortSignal.timeout(10000) });
  const text = (await answer.text()).trim();
  if (!answer.ok) throw new Error(text);
  return text;
}

async function logIn(password) {
  const bare = `n=${USER},r=${toBase64(crypto.getRandomValues(new Uint8Array(18)))}`;
  const answer = await send(`n,,${bare}`);
  const [nonce, salt, iterations] = answer.split(",").map((part) => part.slice(2));
  const key = hmac(salted(utf8(password), fromBase64(salt), Number(iterations)));
  const client = key(utf8("Client Key"));
  const unproved = `c=biws,r=${nonce}`, signed = utf8(`${bare},${answer},${unproved}`);
  const proof = toBase64(xor(client, hmac(sha256(client))(signed)));
  const last = await send(`${unproved},p=${proof}`);
  if (last !== `v=${toBase64(hmac(key(utf8("Server Key")))(signed))}`) throw new Error("This server does not know the password: it is not that of roam6.");
}

byId("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  byId("enter").disabled = true;
  byId("problem").hidden = true;
  try {
    await logIn(byId("password").value.normalize("NFKC"));
    location.replace("/");
  } catch (error) {
    byId("problem").textContent = error.name === "TimeoutError" || error instanceof TypeError ? "The page's server (roam6 web) does not answer." : error.message;
    byId("problem").hidden = false;
    byId("enter").disabled = false;
    byId("password").select();
  }
});
