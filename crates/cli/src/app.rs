//! `meshtoll app`.

use crate::{
    args::{AirlineArgs, AirlinePart, App},
    output::say,
};
use anyhow::{Context as _, bail};
use meshtoll_apps::airline::{self, AirlineService, LoadDataOptions, ServiceOptions};
use std::fs;

/// Runs a part of an application until it is told to end.
pub(crate) fn run(app: App) -> anyhow::Result<()> {
    let App::Airline { part, options } = app;
    let service = match part {
        AirlinePart::Auth => AirlineService::Auth,
        AirlinePart::Customer => AirlineService::Customer,
        AirlinePart::Flight => AirlineService::Flight,
        AirlinePart::Booking => AirlineService::Booking,
        AirlinePart::Load => return load(options),
    };
    let Some(path) = &options.session_key else {
        bail!("give --session-key FILE: the key that sessions are signed with, the same for all four services")
    };
    let key = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    airline::serve(ServiceOptions {
        service,
        listen: options.listen,
        database: options.database,
        database_ca: options.database_ca,
        database_name: options.database_name,
        customer_url: options.customer_url,
        flight_url: options.flight_url,
        session_key: airline::session::SessionKey::new(&key).context("the session key cannot be used")?,
        app_work: options.app_work,
        pool_size: options.pool_size,
    })
    .context("airline")
}

fn load(options: AirlineArgs) -> anyhow::Result<()> {
    let loaded = airline::load_data(LoadDataOptions {
        database: options.database,
        database_ca: options.database_ca,
        database_name: options.database_name,
        customers: options.customers,
    })
    .context("airline")?;
    say!(
        "{} customers, {} airports, {} flight segments, {} flights, {} bookings",
        loaded.customers,
        loaded.airports,
        loaded.segments,
        loaded.flights,
        loaded.bookings
    )
}
