//! A few lanes, which the compiler puts into whatever vectors there are.
use super::Stretch;

const LANES: u64 = 4;
type Vector = [u32; LANES as usize];

scan!(#[allow(clippy::redundant_closure)]);

fn splat(word: u32) -> Vector {
    [word; LANES as usize]
}

fn gather(words: Vector) -> Vector {
    words
}

fn each(mut x: Vector, y: Vector, f: impl Fn(u32, u32) -> u32) -> Vector {
    for (one, other) in x.iter_mut().zip(y) {
        *one = f(*one, other);
    }
    x
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
