//! What a scenario needs to know, as written in a file, and its check.

use super::{Kind, Plan, Request, airline};
use http::{HeaderValue, uri::PathAndQuery};
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, rc::Rc};
use time::Date;

time::serde::format_description!(day, Date, "[year]-[month]-[day]");

/// Which scenario, and with what: an object whose `scenario` says `airline`, `query` or `get`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "scenario", rename_all = "camelCase")]
pub enum ScenarioConfig {
    /// The airline's request mix, as documented in docs/AIRLINE.md.
    Airline(AirlineConfig),
    /// One flight query, always the same: comparable with wrk.
    Query(QueryConfig),
    /// `GET` of one path, always the same.
    Get(GetConfig),
}

/// A service, and by which name it is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    /// Where to connect to. A session has one connection an address, also where several services share it.
    pub address: SocketAddr,
    /// The `Host` header field.
    pub host: String,
}

/// The airline and its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AirlineConfig {
    /// Its four services.
    pub services: AirlineServices,
    /// Codes of the airports between which flights are looked for, two at least.
    pub airports: Vec<String>,
    /// First date for which there are flights, `YYYY-MM-DD`.
    #[serde(with = "day")]
    pub first_day: Date,
    /// For how many days there are flights.
    pub days: u16,
    /// How many customers there are: `uid0@airline.example` and so on.
    pub customers: u32,
}

/// The airline's services.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AirlineServices {
    /// Logs in.
    pub auth: Target,
    /// Customers' profiles.
    pub customer: Target,
    /// Flight queries.
    pub flight: Target,
    /// Bookings.
    pub booking: Target,
}

/// One flight query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryConfig {
    /// The flight service.
    pub flight: Target,
    /// Code of the airport that the trip starts from.
    pub from_airport: String,
    /// Code of the airport that it goes to.
    pub to_airport: String,
    /// Date of the flight out.
    #[serde(with = "day")]
    pub from_date: Date,
    /// Date of the flight back.
    #[serde(with = "day")]
    pub return_date: Date,
}

impl QueryConfig {
    /// Path of the request.
    pub const PATH: &str = airline::QUERY_PATH;

    /// Body of the request, as `application/x-www-form-urlencoded`.
    pub fn form(&self) -> String {
        let mut form = String::new();
        let (from_date, return_date) = (self.from_date.to_string(), self.return_date.to_string());
        let fields = airline::query_form(&self.from_airport, &self.to_airport, &from_date, &return_date);
        form_urlencoded::Serializer::new(&mut form).extend_pairs(fields);
        form
    }
}

/// One `GET`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GetConfig {
    /// The service.
    pub target: Target,
    /// Path and query of the request.
    pub path: String,
}

/// What is wrong with a [`ScenarioConfig`].
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// A host that cannot stand in a header field.
    #[error("`host` is {host:?}, which cannot be sent as a Host header field; write a name, with or without a port")]
    Host {
        /// As written.
        host: String,
        /// Why not.
        source: http::header::InvalidHeaderValue,
    },
    /// A path that cannot stand in a request line.
    #[error("`path` is {path:?}, which is not a path; write one that starts with `/`, encoded as in a URL")]
    Path {
        /// As written.
        path: String,
        /// Why not, where it is not for want of the `/`.
        source: Option<http::uri::InvalidUri>,
    },
    /// No two airports to fly between.
    #[error("`airports` has {0} codes; a trip needs 2 at least")]
    TooFewAirports(usize),
    /// A window of dates that is empty or leaves the calendar.
    #[error("`days` is {days}: the dates from {first_day} on need 1 at least, and an end before the year 10000")]
    Days {
        /// As written.
        first_day: Date,
        /// As written.
        days: u16,
    },
    /// Nobody to log in as.
    #[error("`customers` is 0; a session needs one to log in as")]
    NoCustomers,
}

/// A service as requests name it.
#[derive(Clone, Debug)]
pub(super) struct Service {
    /// Place of its address among [`Plan::addresses`].
    pub(super) connection: usize,
    /// The `Host` header field.
    pub(super) host: String,
}

impl ScenarioConfig {
    /// Checks what was written.
    pub(crate) fn check(&self) -> Result<Plan, ScenarioError> {
        let mut addresses = Vec::new();
        let kind = match self {
            Self::Airline(config) => Kind::Airline(Rc::new(airline::Plan::check(config, &mut addresses)?)),
            Self::Query(config) => {
                let service = service(&config.flight, &mut addresses)?;
                let mut request = Request::default();
                request.start("query", "POST", &service, &[QueryConfig::PATH]).body(airline::FORM, &config.form());
                Kind::Fixed(request)
            }
            Self::Get(config) => {
                let invalid = |source| ScenarioError::Path { path: config.path.clone(), source };
                PathAndQuery::try_from(config.path.as_str()).map_err(|source| invalid(Some(source)))?;
                if !config.path.starts_with('/') {
                    return Err(invalid(None));
                }
                let service = service(&config.target, &mut addresses)?;
                let mut request = Request::default();
                request.start("get", "GET", &service, &[&config.path]).no_body();
                Kind::Fixed(request)
            }
        };
        Ok(Plan { addresses, kind })
    }
}

/// Adds the target's address where it is not among `addresses` yet.
pub(super) fn service(target: &Target, addresses: &mut Vec<SocketAddr>) -> Result<Service, ScenarioError> {
    let host = target.host.clone();
    HeaderValue::from_str(&host).map_err(|source| ScenarioError::Host { host: host.clone(), source })?;
    let connection = addresses.iter().position(|address| *address == target.address).unwrap_or_else(|| {
        addresses.push(target.address);
        addresses.len() - 1
    });
    Ok(Service { connection, host })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_file_and_refuses_unknown_fields() {
        let text = r#"{"scenario": "get", "target": {"address": "127.0.0.1:80", "host": "a"}, "path": "/x?y=1"}"#;
        let config: ScenarioConfig = serde_json::from_str(text).unwrap();
        assert!(config.check().is_ok());
        assert_eq!(serde_json::from_str::<ScenarioConfig>(&serde_json::to_string(&config).unwrap()).unwrap(), config);
        let error = serde_json::from_str::<ScenarioConfig>(&text.replace("path", "paht")).unwrap_err();
        assert!(error.to_string().contains("paht"), "{error}");
        assert!(serde_json::from_str::<ScenarioConfig>(&text.replace("\"get\"", "\"put\"")).is_err());
    }

    #[test]
    fn refuses_what_cannot_be_sent() {
        let config = |host: &str, path: &str| {
            let target = Target { address: "127.0.0.1:80".parse().unwrap(), host: host.to_owned() };
            ScenarioConfig::Get(GetConfig { target, path: path.to_owned() }).check()
        };
        assert!(matches!(config("a\r\nb: c", "/"), Err(ScenarioError::Host { .. })));
        assert!(matches!(config("a", "/ HTTP/1.1\r\n"), Err(ScenarioError::Path { .. })));
        assert!(matches!(config("a", "?x"), Err(ScenarioError::Path { .. })));
    }

    #[test]
    fn the_query_is_a_form() {
        let text = r#"{"scenario": "query", "flight": {"address": "127.0.0.1:80", "host": "flight"}, "fromAirport": "CDG",
            "toAirport": "LHR", "fromDate": "2026-01-05", "returnDate": "2026-01-06"}"#;
        let Ok(ScenarioConfig::Query(query)) = serde_json::from_str(text) else { panic!("not a query") };
        let form = "fromAirport=CDG&toAirport=LHR&fromDate=2026-01-05&returnDate=2026-01-06&oneWay=false";
        assert_eq!(query.form(), form);
    }
}
