//! The arguments of a command: flags, their values, and operands.

use super::word::Word;

/// The arguments of a command, with the flags that take the next word as value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arguments<'a> {
    words: &'a [Word],
    values: &'a [&'a str],
}

impl<'a> Arguments<'a> {
    pub(super) fn new(words: &'a [Word], values: &'a [&'a str]) -> Self {
        Self { words, values }
    }

    /// Returns the words that are neither flags nor values of flags.
    pub(super) fn find_operands(&self) -> Vec<&'a Word> {
        let mut operands = Vec::new();
        let mut words = self.words.iter();
        while let Some(word) = words.next() {
            let text = word.raw();
            if text == "--" {
                operands.extend(words);
                break;
            }
            if text.starts_with('-') && text.len() > 1 {
                if self.values.contains(&text) {
                    words.next();
                }
            } else {
                operands.push(word);
            }
        }
        operands
    }

    /// Returns whether one of the given words is present, also as `--flag=value`.
    pub(super) fn has_any(&self, wanted: &[&str]) -> bool {
        self.words.iter().any(|word| {
            wanted.contains(&word.raw())
                || word
                    .raw()
                    .split_once('=')
                    .is_some_and(|(flag, _)| flag.starts_with("--") && wanted.contains(&flag))
        })
    }

    /// Returns whether a letter is among the short flags.
    pub(super) fn has_short_flag(&self, letter: char) -> bool {
        self.words.iter().take_while(|word| word.raw() != "--").any(|word| {
            let flags = word.raw().strip_prefix('-');
            flags.is_some_and(|flags| !flags.starts_with('-') && flags.contains(letter))
        })
    }

    /// Returns the word after the first of the given flags.
    pub(super) fn find_value(&self, flags: &[&str]) -> Option<&'a Word> {
        let at = self.words.iter().position(|word| flags.contains(&word.raw()))?;
        self.words.get(at + 1)
    }

    /// Returns the values of the given flags: the next word, the text after `=`, or the text
    /// directly after a short flag.
    pub(super) fn find_flag_values(&self, flags: &[&str]) -> Vec<String> {
        let mut texts = Vec::new();
        for (at, word) in self.words.iter().enumerate() {
            let text = word.raw();
            for flag in flags {
                if text == *flag {
                    texts.extend(self.words.get(at + 1).map(|it| it.raw().to_owned()));
                } else if let Some(rest) = text.strip_prefix(flag) {
                    let long = flag.starts_with("--");
                    match rest.strip_prefix('=') {
                        Some(value) => texts.push(value.to_owned()),
                        None if !long && flag.len() == 2 => texts.push(rest.to_owned()),
                        None => {}
                    }
                }
            }
        }
        texts
    }
}
