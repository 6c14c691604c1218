//! HTTP/1.1 read the plain way: whole messages, line by line, as RFC 9112 has them.
//!
//! It is an oracle for what was accepted and takes nothing that the server must refuse. What it
//! refuses itself it does not explain, and of the server's bounds it knows none.

/// A message's parts.
pub struct Message<'a> {
    /// Method, target and version.
    pub line: [&'a [u8]; 3],
    /// Names and values, blanks around them left out.
    pub fields: Vec<(&'a [u8], &'a [u8])>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Bytes of the whole message.
    pub length: usize,
}

/// Reads the message at the beginning of `bytes`, which must be whole.
pub fn message(bytes: &[u8]) -> Option<Message<'_>> {
    let mut rest = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    let line: Vec<_> = line(&mut rest)?.split(|&c| c == b' ').collect();
    let line: [&[u8]; 3] = line.try_into().ok()?;
    let is_11 = line[2] == b"HTTP/1.1";
    let is_target = |c: &u8| c.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(c);
    let good = (is_11 || line[2] == b"HTTP/1.0")
        && is_token(line[0])
        && !line[1].is_empty()
        && line[1].iter().all(is_target);
    if !good {
        return None;
    }
    let fields = fields(&mut rest)?;
    let of = |name: &str| -> Vec<&[u8]> {
        let named = fields
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()));
        named.map(|&(_, value)| value).collect()
    };
    let hosts = of("host").len();
    if hosts > 1 || is_11 && hosts == 0 {
        return None;
    }
    let body = match (&of("content-length")[..], &of("transfer-encoding")[..]) {
        ([], []) => Vec::new(),
        (&[length], []) => {
            let is_number = !length.is_empty() && length.iter().all(u8::is_ascii_digit);
            let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
            let (body, behind) = rest.split_at_checked(length)?;
            rest = behind;
            is_number.then(|| body.to_vec())?
        }
        ([], &[coding]) if is_11 && coding.eq_ignore_ascii_case(b"chunked") => {
            let (body, length) = chunks(rest)?;
            rest = &rest[length..];
            body
        }
        _ => return None,
    };
    Some(Message {
        line,
        fields,
        body,
        length: bytes.len() - rest.len(),
    })
}

/// Reads the chunked body at the beginning of `bytes`: what it holds, and bytes of its framing and
/// it.
pub fn chunks(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut rest = bytes;
    let mut body = Vec::new();
    loop {
        let head = line(&mut rest)?;
        let digits = head.split(|&c| c == b';').next()?;
        let extension = &head[digits.len()..];
        let good = (1..=16).contains(&digits.len())
            && digits.iter().all(u8::is_ascii_hexdigit)
            && extension
                .iter()
                .all(|&c| c == b'\t' || (b' '..=b'~').contains(&c));
        if !good {
            return None;
        }
        let size = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        if size == 0 {
            fields(&mut rest)?;
            return Some((body, bytes.len() - rest.len()));
        }
        let (data, behind) = rest.split_at_checked(usize::try_from(size).ok()?)?;
        body.extend_from_slice(data);
        rest = behind.strip_prefix(b"\r\n")?;
    }
}

/// Field lines up to and including the empty line.
fn fields<'a>(rest: &mut &'a [u8]) -> Option<Vec<(&'a [u8], &'a [u8])>> {
    let mut fields = Vec::new();
    loop {
        let text = line(rest)?;
        if text.is_empty() {
            return Some(fields);
        }
        let colon = text.iter().position(|&c| c == b':')?;
        let (name, value) = (&text[..colon], &text[colon + 1..]);
        let is_value = |&c: &u8| c == b'\t' || c >= b' ' && c != 0x7f;
        if !is_token(name) || !value.iter().all(is_value) {
            return None;
        }
        let is_blank = |c: &u8| b" \t".contains(c);
        let start = value
            .iter()
            .position(|c| !is_blank(c))
            .unwrap_or(value.len());
        let end = value
            .iter()
            .rposition(|c| !is_blank(c))
            .map_or(start, |last| last + 1);
        fields.push((name, &value[start..end]));
    }
}

/// A line without its CR LF. No other CR or LF stands in it.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = rest.iter().position(|c| b"\r\n".contains(c))?;
    let (text, behind) = rest.split_at(length);
    *rest = behind.strip_prefix(b"\r\n")?;
    Some(text)
}

fn is_token(text: &[u8]) -> bool {
    let is_good = |c: &u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.iter().all(is_good)
}
