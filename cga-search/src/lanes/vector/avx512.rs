//! Sixteen lanes, twice; any function of three bits and any rotation is one instruction.
use super::Stretch;
use std::arch::x86_64::*;

type Vector = [__m512i; 2];
const LANES: u64 = 32;

scan!(#[target_feature(enable = "avx512f")]);

with_feature! { "avx512f";
    fn splat(word: u32) -> Vector {
        [_mm512_set1_epi32(word.cast_signed()); 2]
    }

    fn gather(words: [u32; LANES as usize]) -> Vector {
        let mut halves = words.as_chunks::<16>().0.iter();
        std::array::from_fn(|_| {
            let half = halves.next().copied().unwrap_or_default();
            let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = half.map(u32::cast_signed);
            _mm512_set_epi32(p, o, n, m, l, k, j, i, h, g, f, e, d, c, b, a)
        })
    }

    fn add([v, w]: Vector, [x, y]: Vector) -> Vector {
        [_mm512_add_epi32(v, x), _mm512_add_epi32(w, y)]
    }

    fn xor([v, w]: Vector, [x, y]: Vector) -> Vector {
        [_mm512_xor_si512(v, x), _mm512_xor_si512(w, y)]
    }

    fn rotate<const LEFT: i32, const RIGHT: u32>([x, y]: Vector) -> Vector {
        [_mm512_rol_epi32::<LEFT>(x), _mm512_rol_epi32::<LEFT>(y)]
    }

    fn choose([b, e]: Vector, [c, f]: Vector, [d, g]: Vector) -> Vector {
        [_mm512_ternarylogic_epi32::<0xca>(b, c, d), _mm512_ternarylogic_epi32::<0xca>(e, f, g)]
    }

    fn parity([b, e]: Vector, [c, f]: Vector, [d, g]: Vector) -> Vector {
        [_mm512_ternarylogic_epi32::<0x96>(b, c, d), _mm512_ternarylogic_epi32::<0x96>(e, f, g)]
    }

    fn majority([b, e]: Vector, [c, f]: Vector, [d, g]: Vector) -> Vector {
        [_mm512_ternarylogic_epi32::<0xe8>(b, c, d), _mm512_ternarylogic_epi32::<0xe8>(e, f, g)]
    }

    fn without([x, y]: Vector, mask: u32) -> u32 {
        let mask = _mm512_set1_epi32(mask.cast_signed());
        let [low, high] = [x, y].map(|x| u32::from(_mm512_testn_epi32_mask(x, mask)));
        low | high << 16
    }
}
