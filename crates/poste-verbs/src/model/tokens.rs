//! How many tokens a text may cost a model.
//!
//! Tokenizers differ; a budget must hold for all of them, so this errs on the high side: three bytes of ASCII
//! make a token, every other character makes two.

pub fn estimate(text: &str) -> usize {
    let (mut ascii, mut other) = (0_usize, 0_usize);
    for character in text.chars() {
        if character.is_ascii() {
            ascii += 1;
        } else {
            other += 1;
        }
    }
    ascii.div_ceil(3) + 2 * other
}
