//! A request as it goes over the wire.

use super::config::Service;
use std::fmt::Write as _;

/// One HTTP/1.1 request, written by a scenario into buffers that are used again and again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    text: String,
    form: String,
    operation: &'static str,
    connection: usize,
}

impl Request {
    /// The scenario's name for what is asked.
    pub(crate) fn operation(&self) -> &'static str {
        self.operation
    }

    /// Which of the session's connections it takes.
    pub(crate) fn connection(&self) -> usize {
        self.connection
    }

    /// Head and body.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// Starts anew: the request line, its target put together from parts, and the `Host` field.
    pub(super) fn start(&mut self, operation: &'static str, method: &str, to: &Service, path: &[&str]) -> Open<'_> {
        (self.operation, self.connection) = (operation, to.connection);
        self.text.clear();
        self.text.push_str(method);
        self.text.push(' ');
        path.iter().for_each(|part| self.text.push_str(part));
        self.text.push_str(" HTTP/1.1\r\nHost: ");
        self.text.push_str(&to.host);
        self.text.push_str("\r\n");
        Open(self)
    }
}

/// A request whose head is not complete yet.
#[must_use = "a request without its end cannot be sent"]
pub(super) struct Open<'a>(&'a mut Request);

impl Open<'_> {
    /// Adds a `Cookie` field, where there is a cookie.
    pub(super) fn cookie(self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            for part in ["Cookie: ", name, "=", value, "\r\n"] {
                self.0.text.push_str(part);
            }
        }
        self
    }

    /// Ends a request that has no body.
    pub(super) fn no_body(self) {
        self.0.text.push_str("\r\n");
    }

    /// Ends it with a form.
    pub(super) fn form(self, fields: impl IntoIterator<Item = (&'static str, impl AsRef<str>)>) {
        let Self(request) = self;
        request.form.clear();
        form_urlencoded::Serializer::new(&mut request.form).extend_pairs(fields);
        let form = std::mem::take(&mut request.form);
        Open(request).body(super::airline::FORM, &form);
        request.form = form;
    }

    /// Ends it with a body of this type.
    pub(super) fn body(self, content_type: &str, body: &str) {
        let text = &mut self.0.text;
        // Writing to a String cannot fail.
        let _ = write!(text, "Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n", body.len());
        text.push_str(body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_what_rfc_9112_asks_for() {
        let service = Service { connection: 3, host: "booking:9080".to_owned() };
        let mut request = Request::default();
        request.start("list", "GET", &service, &["/booking/byuser/", "uid1@a"]).cookie("s", Some("v")).no_body();
        assert_eq!(
            request.bytes(),
            b"GET /booking/byuser/uid1@a HTTP/1.1\r\nHost: booking:9080\r\nCookie: s=v\r\n\r\n"
        );
        assert_eq!((request.operation(), request.connection()), ("list", 3));
        request.start("x", "POST", &service, &["/x"]).cookie("s", None).form([("userid", "a@b&c"), ("n", "1")]);
        let expected = "POST /x HTTP/1.1\r\nHost: booking:9080\r\nContent-Type: application/x-www-form-urlencoded\r\n\
            Content-Length: 20\r\n\r\nuserid=a%40b%26c&n=1";
        assert_eq!(std::str::from_utf8(request.bytes()).unwrap(), expected);
    }
}
