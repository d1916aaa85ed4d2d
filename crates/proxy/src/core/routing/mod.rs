//! Routing by settings: where requests go that neither a Route nor the location service leads, and
//! which requests are not listened to at all.
//!
//! - `static_route`: which requests go where (a URI or a group of servers), and whether they are
//!   forwarded with state, without, or redirected.
//! - `group`: the settings of a group of servers; `dispatcher` chooses among its members and remembers
//!   which of them answer; `probe` asks them.
//! - `drop_list`: who is not answered; `address_range` is its word for networks.

mod address_range;
mod dispatcher;
mod drop_list;
mod group;
mod pattern;
mod probe;
mod settings;
mod static_route;

pub use address_range::{AddressRange, AddressRangeError};
pub use dispatcher::{MemberHealth, MemberState};
pub use drop_list::{DropList, Dropped};
pub use group::{Group, Member, Probing};
pub use pattern::Pattern;
pub use settings::{Routing, RoutingError};
pub use static_route::{Route, RouteTarget, Routed};

pub(crate) use dispatcher::{Dispatcher, Outcome};
pub(crate) use group::MemberName;
pub(crate) use probe::{Probe, Probes};
pub(crate) use static_route::NextHopUri;
