//! Whether a place lies in the region of a certificate (IEEE 1609.2 §6.4.17).

use super::Refusal;
use crate::contract::report::DropReason;
use crate::geo::geometry;
use roam6_wire::geo::Coordinates;
use roam6_wire::security::{Certificate, GeographicRegion};

/// Refuses a place outside the region of a certificate. The borders of countries are not known here: a certificate of a
/// country counts as one of everywhere, because its holder still is one of the authority's stations.
pub(super) fn check(certificate: &Certificate<'_>, place: Coordinates) -> Result<(), Refusal> {
    let is_inside = certificate.region.is_none_or(|region| contains(&region, place));
    match is_inside {
        true => Ok(()),
        false => {
            Err(Refusal::refuted(DropReason::NotPermitted, format!("{place} is outside the certificate's region")))
        }
    }
}

fn contains(region: &GeographicRegion<'_>, place: Coordinates) -> bool {
    match region {
        GeographicRegion::Circular { center, radius } => geometry::distance(*center, place) <= f64::from(*radius),
        GeographicRegion::Rectangular(corners) => {
            let corners: Vec<Coordinates> = corners.iter().collect();
            corners.as_chunks::<2>().0.iter().any(|[north_west, south_east]| {
                (south_east.latitude..=north_west.latitude).contains(&place.latitude)
                    && (north_west.longitude..=south_east.longitude).contains(&place.longitude)
            })
        }
        GeographicRegion::Polygonal(corners) => is_in_polygon(&corners.iter().collect::<Vec<_>>(), place),
        GeographicRegion::Identified(_) => true,
    }
}

/// Whether a ray to the east crosses the border an odd number of times.
fn is_in_polygon(corners: &[Coordinates], place: Coordinates) -> bool {
    let next = corners.iter().cycle().skip(1);
    let crossings = corners.iter().zip(next).filter(|(from, to)| {
        let is_above = |corner: &Coordinates| corner.latitude > place.latitude;
        if is_above(from) == is_above(to) {
            return false;
        }
        let (latitude, longitude) = (f64::from(from.latitude), f64::from(from.longitude));
        let part = (f64::from(place.latitude) - latitude) / (f64::from(to.latitude) - latitude);
        f64::from(place.longitude) < longitude + part * (f64::from(to.longitude) - longitude)
    });
    crossings.count() % 2 == 1
}
