//! The requests, signed ahead: per body one byte string in which only the delivery id changes.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::args::Target;

/// Length of a delivery id in its UUID text form.
pub const DELIVERY_LEN: usize = 36;

/// One signed request, ready to be written.
pub struct Template {
    bytes: Vec<u8>,
    delivery_at: usize,
}

/// What all requests of a run share.
pub struct Recipe<'a> {
    /// Where they go.
    pub target: &'a Target,
    /// The request target, which may be another than the one of `target`.
    pub path: &'a str,
    /// A GET: without body and signature.
    pub get: bool,
    /// Signs the body as GitHub does; without one nothing is signed.
    pub secret: Option<&'a [u8]>,
    /// More header lines, `Name: value`.
    pub headers: &'a [String],
}

impl Template {
    /// Lays out the request for one body.
    pub fn new(recipe: &Recipe, body: &[u8]) -> Self {
        let (method, body) = if recipe.get {
            ("GET", &body[..0])
        } else {
            ("POST", body)
        };
        let mut head = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: sluice-load\r\n\
             X-GitHub-Event: push\r\n",
            recipe.path, recipe.target.host
        );
        for line in recipe.headers {
            head.push_str(line);
            head.push_str("\r\n");
        }
        if let Some(secret) = recipe.secret.filter(|_| !recipe.get) {
            head.push_str(&format!(
                "X-Hub-Signature-256: sha256={}\r\n",
                sign(secret, body)
            ));
        }
        if !recipe.get {
            head.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {}\r\n",
                body.len()
            ));
        }
        head.push_str("X-GitHub-Delivery: ");
        let delivery_at = head.len();
        head.push_str(&"0".repeat(DELIVERY_LEN));
        head.push_str("\r\n\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        Self { bytes, delivery_at }
    }

    /// The request under this delivery id.
    pub fn with_delivery(&mut self, id: &[u8; DELIVERY_LEN]) -> &[u8] {
        self.bytes[self.delivery_at..self.delivery_at + DELIVERY_LEN].copy_from_slice(id);
        &self.bytes
    }
}

/// GitHub's `X-Hub-Signature-256` without its prefix: HMAC-SHA256 of the body in lower-case hex.
pub fn sign(secret: &[u8], body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length");
    mac.update(body);
    mac.finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Delivery ids of one run: the run's seed and a counter in the shape of a version 4 UUID.
pub struct Deliveries {
    prefix: [u8; DELIVERY_LEN],
}

impl Deliveries {
    /// Ids under this seed; two runs against one store need two seeds, or all is a duplicate.
    pub fn new(seed: u64) -> Self {
        let text = format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-000000000000",
            seed >> 32,
            (seed >> 16) & 0xffff,
            (seed >> 4) & 0xfff,
            (seed & 0xf) << 8
        );
        let mut prefix = [0; DELIVERY_LEN];
        prefix.copy_from_slice(text.as_bytes());
        Self { prefix }
    }

    /// The id of the request with this index.
    pub fn id(&self, index: u64) -> [u8; DELIVERY_LEN] {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut id = self.prefix;
        let mut rest = index;
        for byte in id.iter_mut().rev().take(12) {
            *byte = HEX[(rest & 0xf) as usize];
            rest >>= 4;
        }
        id
    }
}

/// A JSON body of exactly `length` bytes; `salt` makes it differ from its siblings.
pub fn filler(length: usize, salt: u64) -> Vec<u8> {
    let open = format!("{{\"ref\":\"refs/heads/main\",\"salt\":\"{salt:016x}\",\"pad\":\"");
    let close = "\"}";
    if length < open.len() + close.len() {
        return vec![b'1'; length];
    }
    let mut body = open.into_bytes();
    let mut state = salt | 1;
    while body.len() < length - close.len() {
        // xorshift64: text that does not compress to nothing, without a dependency.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        body.push(b'a' + (state % 26) as u8);
    }
    body.extend_from_slice(close.as_bytes());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_one_github_documents() {
        // The worked example of GitHub's guide to validating deliveries.
        assert_eq!(
            sign(b"It's a Secret to Everybody", b"Hello, World!"),
            "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        );
    }

    #[test]
    fn only_the_delivery_id_differs_between_two_requests() {
        let target = Target::parse("http://127.0.0.1:1/hooks/github").unwrap();
        let recipe = Recipe {
            target: &target,
            path: &target.path,
            get: false,
            secret: Some(b"k"),
            headers: &["X-A: b".into()],
        };
        let mut template = Template::new(&recipe, b"{}");
        let ids = Deliveries::new(7);
        let first = template.with_delivery(&ids.id(1)).to_vec();
        let second = template.with_delivery(&ids.id(0xabc)).to_vec();
        let text = String::from_utf8(second.clone()).unwrap();
        assert!(
            text.starts_with("POST /hooks/github HTTP/1.1\r\nHost: 127.0.0.1:1\r\n"),
            "{text}"
        );
        assert!(text.contains("\r\nX-A: b\r\n"), "{text}");
        assert!(text.ends_with("-000000000abc\r\n\r\n{}"), "{text}");
        let differing = first.iter().zip(&second).filter(|(a, b)| a != b).count();
        assert_eq!((first.len(), differing), (second.len(), 3));
    }

    #[test]
    fn a_get_has_neither_body_nor_signature() {
        let target = Target::parse("http://127.0.0.1:1").unwrap();
        let recipe = Recipe {
            target: &target,
            path: "/hooks/x?challenge=1",
            get: true,
            secret: Some(b"k"),
            headers: &[],
        };
        let mut template = Template::new(&recipe, b"{}");
        let text = String::from_utf8(template.with_delivery(&[b'7'; 36]).to_vec()).unwrap();
        assert!(
            text.starts_with("GET /hooks/x?challenge=1 HTTP/1.1\r\n"),
            "{text}"
        );
        assert!(text.ends_with("7777\r\n\r\n"), "{text}");
        assert!(
            !text.contains("Length") && !text.contains("sha256"),
            "{text}"
        );
    }

    #[test]
    fn a_body_has_the_length_asked_for() {
        for length in [0, 1, 10, 80, 1024, 16384] {
            assert_eq!(filler(length, 3).len(), length);
        }
        assert_ne!(filler(1024, 1), filler(1024, 2));
    }

    #[test]
    fn ids_of_two_seeds_never_meet() {
        assert_ne!(Deliveries::new(1).id(5), Deliveries::new(2).id(5));
        assert_ne!(
            Deliveries::new(1 << 60).id(5),
            Deliveries::new(2 << 60).id(5)
        );
    }
}
