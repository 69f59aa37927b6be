//! What the published investigation says to each chart of the `egress` experiment, in our own words. What it says
//! of a single case stands in the run's record.

/// The three charts of the investigation.
#[derive(Clone, Copy)]
pub(crate) enum Chart {
    /// Throughput against number of clients.
    Throughput,
    /// Response times at 20 clients.
    ResponseTime,
    /// CPU of all mesh components a transaction.
    Cpu,
}

/// The setting of the publication, and its finding for a chart; `None` for experiments that have no such chart.
pub(crate) fn finding(experiment: &str, chart: Chart) -> Option<&'static str> {
    (experiment == "egress").then_some(match chart {
        Chart::Throughput => {
            "bypass, sidecar and gateway about equal; gateway-mtls about 10 % below; gateway-sni about 24 % below."
        }
        Chart::ResponseTime => {
            "gateway-mtls and gateway-sni add noticeable latency; the other cases lie close together."
        }
        Chart::Cpu => {
            "gateway-sni is the only case with significantly more CPU a transaction. The published figure includes the \
             control plane; no control plane runs here."
        }
    })
}

/// Where the findings come from, so that a reader knows what differs.
pub(crate) fn setting(experiment: &str) -> Option<&'static str> {
    (experiment == "egress").then_some(
        "Published 2019: Istio 1.0.2 on Kubernetes 1.10, a Java airline application with an external MongoDB, JMeter, \
         runs of 5 minutes. Directions and ratios can be compared with it, absolute figures cannot.",
    )
}
