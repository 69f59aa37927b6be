//! A client of the services that keeps its customer's session.

use super::app::{Addresses, App};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::runtime::Runtime;

pub(crate) struct Caller {
    runtime: Runtime,
    client: Client<HttpConnector, Full<Bytes>>,
    pub(crate) to: Addresses,
    /// Sent with every request.
    pub(crate) cookie: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// A request's body.
#[derive(Clone, Copy)]
pub(crate) enum Body<'a> {
    None,
    Form(&'a [(&'a str, &'a str)]),
    Json(&'a Value),
    Raw(&'a str, &'a str),
}

impl Caller {
    pub(crate) fn new(app: &App) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { runtime, client, to: app.addresses(), cookie: None }
    }

    /// Logged in as the customer with this index.
    pub(crate) fn logged_in(app: &App, index: u32) -> Self {
        let mut caller = Self::new(app);
        caller.log_in(&id(index));
        caller
    }

    pub(crate) fn log_in(&mut self, id: &str) -> Answer {
        let answer = self.post(self.to.auth, "/auth/login", &[("login", id), ("password", "password")]).ok();
        let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap();
        self.cookie = Some(cookie.split(';').next().unwrap().to_owned());
        answer
    }

    pub(crate) fn call(&self, method: Method, to: SocketAddr, path: &str, body: Body<'_>) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("http://{to}{path}"));
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        let (content_type, body) = match body {
            Body::None => (None, String::new()),
            Body::Form(fields) => {
                let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
                (Some("application/x-www-form-urlencoded"), fields.join("&"))
            }
            Body::Json(value) => (Some("application/json"), value.to_string()),
            Body::Raw(content_type, text) => (Some(content_type), text.to_owned()),
        };
        if let Some(content_type) = content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request.body(Full::from(body)).unwrap();
        self.runtime.block_on(async {
            let response = self.client.request(request).await.unwrap();
            let (parts, body) = response.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            Answer { status: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
        })
    }

    pub(crate) fn get(&self, to: SocketAddr, path: &str) -> Answer {
        self.call(Method::GET, to, path, Body::None)
    }

    pub(crate) fn post(&self, to: SocketAddr, path: &str, form: &[(&str, &str)]) -> Answer {
        self.call(Method::POST, to, path, Body::Form(form))
    }

    pub(crate) fn post_json(&self, to: SocketAddr, path: &str, body: &Value) -> Answer {
        self.call(Method::POST, to, path, Body::Json(body))
    }

    pub(crate) fn query(&self, from: &str, to: &str, out: &str, back: &str) -> Answer {
        let form =
            [("fromAirport", from), ("toAirport", to), ("fromDate", out), ("returnDate", back), ("oneWay", "false")];
        self.post(self.to.flight, "/flight/queryflights", &form)
    }

    pub(crate) fn book(&self, id: &str, trip: &[Value; 2]) -> Answer {
        let field = |leg: usize, name: &str| trip[leg][name].as_str().unwrap().to_owned();
        let form = [
            ("userid", id),
            ("toFlightId", &field(0, "_id")),
            ("toFlightSegId", &field(0, "flightSegmentId")),
            ("retFlightId", &field(1, "_id")),
            ("retFlightSegId", &field(1, "flightSegmentId")),
            ("oneWayFlight", "false"),
        ];
        self.post(self.to.booking, "/booking/bookflights", &form)
    }

    pub(crate) fn list(&self, id: &str) -> Answer {
        self.get(self.to.booking, &format!("/booking/byuser/{id}"))
    }

    pub(crate) fn cancel(&self, id: &str, number: &str) -> Answer {
        self.post(self.to.booking, "/booking/cancelbooking", &[("userid", id), ("number", number)])
    }

    pub(crate) fn view(&self, id: &str) -> Answer {
        self.get(self.to.customer, &format!("/customer/byid/{id}"))
    }

    pub(crate) fn update(&self, id: &str, phone: &str) -> Answer {
        self.post_json(self.to.customer, &format!("/customer/byid/{id}"), &profile(phone))
    }

    pub(crate) fn miles(&self, id: &str) -> i64 {
        self.view(id).ok().json()["totalMiles"].as_i64().unwrap()
    }

    pub(crate) fn booking_ids(&self, id: &str) -> Vec<String> {
        let bookings = self.list(id).ok().json();
        bookings.as_array().unwrap().iter().map(|booking| booking["_id"].as_str().unwrap().to_owned()).collect()
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.status, StatusCode::OK, "{}", self.body);
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Asserts that the request was refused, and gives back what its sender is told.
    #[track_caller]
    pub(crate) fn refused(self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        let told = self.json();
        assert_eq!(told.as_object().map(|fields| fields.len()), Some(1), "{told}");
        told["error"].as_str().unwrap().to_owned()
    }

    /// The first flight of each leg, or `None` unless there is one each way.
    pub(crate) fn trip(&self) -> Option<[Value; 2]> {
        let legs = self.json()["tripFlights"].clone();
        let first = |leg: usize| legs[leg]["flights"].get(0).cloned();
        Some([first(0)?, first(1)?])
    }
}

/// The id of the customer with this index.
pub(crate) fn id(index: u32) -> String {
    format!("uid{index}@airline.example")
}

/// A profile, as a customer sends it.
pub(crate) fn profile(phone: &str) -> Value {
    json!({
        "phoneNumber": phone,
        "phoneNumberType": "HOME",
        "address": {
            "streetAddress1": "1 New Street",
            "city": "Otherville",
            "stateProvince": "Ohio",
            "country": "United States",
            "postalCode": "43001",
        },
    })
}
