//! Cuts bytes into pieces, always the same for the same bytes: every reader of a stream must come to
//! the same however it is cut.

/// Returns the pieces of some bytes, of sizes that follow from the bytes themselves.
pub(super) fn pieces(bytes: &[u8]) -> Vec<&[u8]> {
    let mut state = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let longest = if state >> 62 == 0 { 2 } else { 257 };
        let size = usize::try_from((state >> 33) % longest).unwrap_or(0) + 1;
        let (piece, after) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Returns the pieces of a text, none of which cuts a character.
pub(super) fn text_pieces(text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut cut = Vec::new();
    for piece in pieces(text.as_bytes()) {
        let end = (piece.len().min(rest.len())..=rest.len()).find(|it| rest.is_char_boundary(*it));
        let (head, tail) = rest.split_at(end.unwrap_or(rest.len()));
        cut.push(head);
        rest = tail;
    }
    cut
}
