//! Values as blocks in a line of a terminal.

/// From empty to full.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One character for each value, `full` being a whole block; nothing is drawn for nothing.
pub(crate) fn block_row(values: &[f64], full: f64) -> String {
    let block = |value: &f64| {
        let height = if full > 0.0 { (value / full * 8.0).ceil().clamp(0.0, 8.0) as usize } else { 0 };
        BLOCKS.get(height).copied().unwrap_or(' ')
    };
    values.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_with_the_value() {
        assert_eq!(block_row(&[0.0, 0.1, 4.0, 8.0, 9.0], 8.0), " ▁▄██");
    }
}
