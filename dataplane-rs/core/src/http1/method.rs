//! The methods that have a meaning here. Any other token is answered with 501.

/// A method of RFC 9110 §9 or RFC 5789. CONNECT is left out: nothing is tunnelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Method {
    /// DELETE
    Delete,
    /// GET
    Get,
    /// HEAD
    Head,
    /// OPTIONS
    Options,
    /// PATCH
    Patch,
    /// POST
    Post,
    /// PUT
    Put,
    /// TRACE
    Trace,
}

impl Method {
    /// All of them, in the order of their bits in [`crate::routes::Methods`].
    pub const ALL: [Method; 8] = [
        Method::Delete,
        Method::Get,
        Method::Head,
        Method::Options,
        Method::Patch,
        Method::Post,
        Method::Put,
        Method::Trace,
    ];

    /// Methods compare with case.
    pub fn parse(name: &[u8]) -> Option<Method> {
        Some(match name {
            b"POST" => Method::Post,
            b"GET" => Method::Get,
            b"PUT" => Method::Put,
            b"HEAD" => Method::Head,
            b"PATCH" => Method::Patch,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            _ => return None,
        })
    }

    /// The name as it stands in a request line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Delete => "DELETE",
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Options => "OPTIONS",
            Method::Patch => "PATCH",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Trace => "TRACE",
        }
    }
}

const _: () = {
    let mut i = 0;
    while i < Method::ALL.len() {
        assert!(Method::ALL[i].as_str().len() <= crate::limits::METHOD_BYTES_MAX);
        assert!(Method::ALL[i] as usize == i);
        i += 1;
    }
};
