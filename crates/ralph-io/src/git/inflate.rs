//! Reads zlib streams, as git keeps its objects in.
//!
//! Not here: writing them (`object_store` stores bytes as they are). The checksum is not compared:
//! the id of an object says more.

/// The most bits of a code.
const LONGEST_CODE: usize = 15;

/// The order in which the lengths of the codes for lengths are stored.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// The shortest repetition of each symbol, and how many bits are added to it.
const LENGTHS: [(usize, u32); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];

/// The shortest distance of each symbol; it is followed by as many bits as the distance has
/// beyond the first two.
const DISTANCES: [usize; 30] = [
    1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537,
    2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577,
];

/// Returns the content of a zlib stream; `None` if it is damaged or longer than `most` bytes.
pub(super) fn read_zlib_stream(stream: &[u8], most: usize) -> Option<Vec<u8>> {
    let [method, flags, rest @ ..] = stream else { return None };
    let is_sound = u16::from_be_bytes([*method, *flags]).is_multiple_of(31);
    // Anything but deflate, and streams that need a dictionary.
    if !is_sound || method & 0x0f != 8 || flags & 0x20 != 0 {
        return None;
    }
    let (mut bits, mut content) = (BitReader { bytes: rest, held: 0, count: 0 }, Vec::new());
    loop {
        let is_last = bits.take(1)? == 1;
        match bits.take(2)? {
            0 => content.extend_from_slice(bits.take_stored()?),
            1 => {
                let (literals, distances) = build_fixed_codes();
                bits.read_block(&literals, &distances, &mut content, most)?;
            }
            2 => {
                let (literals, distances) = bits.read_codes()?;
                bits.read_block(&literals, &distances, &mut content, most)?;
            }
            _ => return None,
        }
        if content.len() > most {
            return None;
        }
        if is_last {
            return Some(content);
        }
    }
}

/// A prefix code, by the number of symbols of each length and the symbols in the order of their
/// codes.
struct PrefixCode {
    counts: [usize; LONGEST_CODE + 1],
    symbols: Vec<usize>,
}

impl PrefixCode {
    fn from_lengths(lengths: &[usize]) -> Self {
        let mut counts = [0; LONGEST_CODE + 1];
        for length in lengths {
            counts[*length] += 1;
        }
        counts[0] = 0;
        let of_length = |length: usize| {
            lengths.iter().enumerate().filter(move |(_, it)| **it == length).map(|(at, _)| at)
        };
        Self { counts, symbols: (1..=LONGEST_CODE).flat_map(of_length).collect() }
    }
}

fn build_fixed_codes() -> (PrefixCode, PrefixCode) {
    let lengths = [(8, 144), (9, 112), (7, 24), (8, 8)];
    let lengths: Vec<usize> =
        lengths.iter().flat_map(|(length, count)| std::iter::repeat_n(*length, *count)).collect();
    (PrefixCode::from_lengths(&lengths), PrefixCode::from_lengths(&[5; 30]))
}

struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits of the last byte that were not taken yet.
    held: u32,
    count: u32,
}

impl<'a> BitReader<'a> {
    /// Takes at most 13 bits.
    fn take(&mut self, wanted: u32) -> Option<usize> {
        while self.count < wanted {
            let (first, rest) = self.bytes.split_first()?;
            self.held |= u32::from(*first) << self.count;
            (self.bytes, self.count) = (rest, self.count + 8);
        }
        let value = self.held & ((1 << wanted) - 1);
        (self.held, self.count) = (self.held >> wanted, self.count - wanted);
        usize::try_from(value).ok()
    }

    /// Takes a block that is stored as it is; it begins at a whole byte.
    fn take_stored(&mut self) -> Option<&'a [u8]> {
        (self.held, self.count) = (0, 0);
        let (head, rest) = self.bytes.split_at_checked(4)?;
        let length = u16::from_le_bytes([head[0], head[1]]);
        if !length != u16::from_le_bytes([head[2], head[3]]) {
            return None;
        }
        let (block, rest) = rest.split_at_checked(usize::from(length))?;
        self.bytes = rest;
        Some(block)
    }

    fn take_symbol(&mut self, code: &PrefixCode) -> Option<usize> {
        // The code as far as it is read, and the first code and symbol of that length.
        let (mut read, mut first, mut index) = (0, 0, 0);
        for count in &code.counts[1..] {
            read |= self.take(1)?;
            if read < first + count {
                return code.symbols.get(index + read.checked_sub(first)?).copied();
            }
            index += count;
            (first, read) = ((first + count) << 1, read << 1);
        }
        None
    }

    /// Reads the codes of a block.
    fn read_codes(&mut self) -> Option<(PrefixCode, PrefixCode)> {
        let (literals, distances) = (self.take(5)? + 257, self.take(5)? + 1);
        let stored = self.take(4)? + 4;
        let mut lengths = [0; ORDER.len()];
        for at in &ORDER[..stored] {
            lengths[*at] = self.take(3)?;
        }
        let code = PrefixCode::from_lengths(&lengths);
        let mut lengths: Vec<usize> = Vec::new();
        while lengths.len() < literals + distances {
            let (length, count) = match self.take_symbol(&code)? {
                length @ 0..=LONGEST_CODE => (length, 1),
                16 => (*lengths.last()?, 3 + self.take(2)?),
                17 => (0, 3 + self.take(3)?),
                _ => (0, 11 + self.take(7)?),
            };
            lengths.extend(std::iter::repeat_n(length, count));
        }
        let (of_literals, of_distances) = lengths.split_at(literals);
        let of_distances = of_distances.get(..distances)?;
        Some((PrefixCode::from_lengths(of_literals), PrefixCode::from_lengths(of_distances)))
    }

    /// Reads a compressed block to its end.
    fn read_block(
        &mut self,
        literals: &PrefixCode,
        distances: &PrefixCode,
        content: &mut Vec<u8>,
        most: usize,
    ) -> Option<()> {
        while content.len() <= most {
            let symbol = self.take_symbol(literals)?;
            if let Ok(byte) = u8::try_from(symbol) {
                content.push(byte);
                continue;
            }
            let Some(symbol) = symbol.checked_sub(257) else { return Some(()) };
            let (shortest, added) = LENGTHS.get(symbol)?;
            let length = shortest + self.take(*added)?;
            let symbol = self.take_symbol(distances)?;
            let added = u32::try_from(symbol).ok()?.saturating_sub(2) / 2;
            let distance = DISTANCES.get(symbol)? + self.take(added)?;
            let from = content.len().checked_sub(distance)?;
            for at in from..from + length {
                content.push(content[at]);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams of Python's zlib: stored, with the fixed codes, and with codes of its own.
    const SAMPLES: [(&str, fn() -> Vec<u8>); 3] = [
        ("7801010300fcff616263024d0127", || b"abc".to_vec()),
        ("789c4b4c4a4e494d4b44220142540700", || b"abcdefabcdefabcdef".to_vec()),
        (DYNAMIC, || {
            (0..2000_u32).flat_map(|at| format!("{} ", at * at % 97).into_bytes()).collect()
        }),
    ];

    const DYNAMIC: &str = "\
        78daed90810dc4200c0357b9119a0402ecbfd81bd6784b156a4becd8f7110c0ed1e4a49a71e8c10e8a1c8cc54a\
        920a3a399a28d64724b3389a9656067a1fcc8f4d4f72b1377390c9969bac2611eca6a5d854129ae4147bb20e4b\
        67bde77deaa7aefa0e695402c9248e67243b99ca5a0bb446cbb472dfe58a7083c40bd537a0622aac222b78bf12\
        79eba894aad52da9aa2a5cafbc101cb1083e333113333113333113333113333113333113333113333113333113\
        333193ff66f203eae2f1fb";

    fn parse_hex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(&String::from_utf8_lossy(pair), 16);
        digits.map(|pair| byte(pair).expect("hex")).collect()
    }

    #[test]
    fn streams_are_read_as_they_were_written() {
        for (stream, content) in SAMPLES {
            let (stream, content) = (parse_hex(stream), content());
            assert_eq!(read_zlib_stream(&stream, content.len()).as_ref(), Some(&content));
            assert_eq!(read_zlib_stream(&stream, content.len() - 1), None, "too long");
        }
    }

    #[test]
    fn damaged_streams_are_refused_or_have_another_content() {
        for (stream, content) in SAMPLES {
            let (stream, most) = (parse_hex(stream), content().len() * 4);
            for at in 0..stream.len() {
                let _ = read_zlib_stream(&stream[..at], most);
                for bit in 0..8 {
                    let mut damaged = stream.clone();
                    damaged[at] ^= 1 << bit;
                    let read = read_zlib_stream(&damaged, most);
                    assert!(read.is_none_or(|read| read.len() <= most));
                }
            }
        }
    }
}
