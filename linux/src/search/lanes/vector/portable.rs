//! Four lanes, which the compiler puts into whatever vectors there are.
use super::Stretch;

type Vector = [u32; 4];
const LANES: u64 = 4;

scan!(#[allow(clippy::redundant_closure)]);

fn splat(word: u32) -> Vector {
    [word; 4]
}

fn gather(words: [u32; LANES as usize]) -> Vector {
    words
}

fn each(x: Vector, y: Vector, f: impl Fn(u32, u32) -> u32) -> Vector {
    let ([a, b, c, d], [e, g, h, i]) = (x, y);
    [f(a, e), f(b, g), f(c, h), f(d, i)]
}

fn add(x: Vector, y: Vector) -> Vector {
    each(x, y, u32::wrapping_add)
}

fn xor(x: Vector, y: Vector) -> Vector {
    each(x, y, |x, y| x ^ y)
}

fn and(x: Vector, y: Vector) -> Vector {
    each(x, y, |x, y| x & y)
}

fn rotate<const LEFT: u32, const RIGHT: u32>(x: Vector) -> Vector {
    x.map(|lane| lane.rotate_left(LEFT))
}

fn choose(b: Vector, c: Vector, d: Vector) -> Vector {
    xor(d, and(b, xor(c, d)))
}

fn parity(b: Vector, c: Vector, d: Vector) -> Vector {
    xor(xor(b, c), d)
}

fn majority(b: Vector, c: Vector, d: Vector) -> Vector {
    xor(and(b, c), and(d, xor(b, c)))
}

fn without(x: Vector, mask: u32) -> u32 {
    x.iter().rev().fold(0, |fit, lane| fit << 1 | u32::from(lane & mask == 0))
}
