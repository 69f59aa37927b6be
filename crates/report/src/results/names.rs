//! Shapes that names and enums of other crates have in the JSON schema. They exist for the schema alone; a test
//! validates real values against it.

use schemars::JsonSchema;

/// Shape of a load level.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LoadLevel")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum LevelSchema {
    /// Closed loop: this many clients, each with one request outstanding.
    Clients(u32),
    /// Open loop: this many requests a second, whatever the answers.
    Rate(u32),
}

/// Shape of what sidecars read of HTTP.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "HttpHandling")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum HttpSchema {
    /// Nothing: it is passed as TCP.
    Tcp,
    /// Each request and response.
    Full,
}

/// Shape of a process's role.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Role")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum RoleSchema {
    /// A service of the application.
    Service,
    /// A proxy beside a service.
    Sidecar,
    /// The egress gateway.
    Gateway,
    /// The second proxy in the gateway's pod.
    SniProxy,
    /// The external database.
    Database,
    /// The load generator.
    Load,
    /// The testbed's helpers.
    Testbed,
}
