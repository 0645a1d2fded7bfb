//! Eight lanes, twice.
use super::Stretch;
use std::arch::x86_64::*;

type Vector = [__m256i; 2];
const LANES: u64 = 16;

scan!(#[target_feature(enable = "avx2")]);

with_feature! { "avx2";
    fn splat(word: u32) -> Vector {
        [_mm256_set1_epi32(word.cast_signed()); 2]
    }

    fn gather(words: [u32; LANES as usize]) -> Vector {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = words.map(u32::cast_signed);
        [_mm256_set_epi32(h, g, f, e, d, c, b, a), _mm256_set_epi32(p, o, n, m, l, k, j, i)]
    }

    fn add([v, w]: Vector, [x, y]: Vector) -> Vector {
        [_mm256_add_epi32(v, x), _mm256_add_epi32(w, y)]
    }

    fn xor([v, w]: Vector, [x, y]: Vector) -> Vector {
        [_mm256_xor_si256(v, x), _mm256_xor_si256(w, y)]
    }

    fn and([v, w]: Vector, [x, y]: Vector) -> Vector {
        [_mm256_and_si256(v, x), _mm256_and_si256(w, y)]
    }

    fn or([v, w]: Vector, [x, y]: Vector) -> Vector {
        [_mm256_or_si256(v, x), _mm256_or_si256(w, y)]
    }

    fn rotate<const LEFT: i32, const RIGHT: i32>([x, y]: Vector) -> Vector {
        let left = [_mm256_slli_epi32::<LEFT>(x), _mm256_slli_epi32::<LEFT>(y)];
        or(left, [_mm256_srli_epi32::<RIGHT>(x), _mm256_srli_epi32::<RIGHT>(y)])
    }

    fn choose(b: Vector, c: Vector, d: Vector) -> Vector {
        xor(d, and(b, xor(c, d)))
    }

    fn parity(b: Vector, c: Vector, d: Vector) -> Vector {
        xor(xor(b, c), d)
    }

    fn majority(b: Vector, c: Vector, d: Vector) -> Vector {
        or(and(b, c), and(d, or(b, c)))
    }

    fn without(x: Vector, mask: u32) -> u32 {
        let fit = |x| _mm256_castsi256_ps(_mm256_cmpeq_epi32(x, _mm256_setzero_si256()));
        let [low, high] = and(x, splat(mask)).map(|x| _mm256_movemask_ps(fit(x)).cast_unsigned());
        low | high << 8
    }
}
