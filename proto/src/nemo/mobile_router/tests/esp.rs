//! Paths encrypted by ESP: an update that is sent again repeats its offer, a move makes another one, and nothing is sent in the clear.

use super::*;
use crate::contract::config::nemo::{Encryption, EncryptionMethod};
use crate::contract::item::EspPair;
use crate::contract::view::FaultKind;
use crate::crypto::key_agreement::EphemeralSecret;
use crate::crypto::path_esp::{EspAgreement, EspEnd, EspKeys};
use roam6_wire::mobility::{EspKey, WireguardKey};

fn by_esp(sharing: LoadSharing) -> MobileRouterConfig {
    let encryption = Encryption { method: EncryptionMethod::Esp, required: true, ..Default::default() };
    MobileRouterConfig { encryption: Some(encryption), load_sharing: sharing, ..config() }
}

fn offers(update: &Update) -> Vec<EspKey> {
    let options = update.message.options.iter();
    let keys = options.filter_map(|option| match option {
        MobilityOption::EspKey(key) => Some(*key),
        _ => None,
    });
    keys.collect()
}

/// The private key of the home agent's `number`-th answer, and the SPI and public key in that answer.
fn answer(number: u32) -> (EphemeralSecret, EspEnd) {
    let secret = EphemeralSecret::generate(&mut Entropy::seed_from_u64(number.into()));
    let point = secret.point().unwrap();
    (secret, EspEnd { spi: 0x2000 + number, point })
}

impl TestBed {
    /// The home agent accepts `update`, and answers its offers by the `number`-th answer.
    fn acknowledge_offers(&mut self, update: &Update, number: u32) -> Vec<Output> {
        let (_, end) = answer(number);
        let answers = offers(update).into_iter().map(|offer| MobilityOption::EspKey(end.option(offer.bid, offer.spi)));
        let bid_options = update.bid_options().into_iter().map(MobilityOption::BindingIdentifier);
        let options = bid_options.chain(answers).collect();
        self.acknowledge_with(update, Status::ACCEPTED, AckFlags::ROUTER, update.message.sequence, options)
    }

    fn esp_fault(&self) -> Option<FaultKind> {
        let mut view = View::default();
        self.router.view(self.now, &mut view);
        view.bindings.into_iter().find_map(|binding| binding.fault)
    }
}

fn begin(sharing: LoadSharing) -> (TestBed, Update) {
    let mut bench = TestBed::new(by_esp(sharing));
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    (bench, update(&outputs))
}

fn pair(bench: &TestBed) -> EspPair {
    *bench.tunnel().unwrap().paths[0].encap.esp().unwrap()
}

#[test]
fn path_is_used_once_the_home_agent_has_answered() {
    let (mut bench, sent) = begin(LoadSharing::Single);
    let [offer] = offers(&sent)[..] else { panic!("{sent:?}") };
    assert_eq!((offer.bid, offer.answers), (Bid(0), 0));
    assert!(bench.paths().is_empty(), "not before");
    bench.acknowledge_offers(&sent, 1);
    let tunnel = bench.tunnel().unwrap();
    let [path] = &tunnel.paths[..] else { panic!("{tunnel:?}") };
    let (secret, end) = answer(1);
    assert_eq!((pair(&bench).inbound, pair(&bench).outbound), (offer.spi, end.spi));
    assert_eq!((pair(&bench).initiates, path.mtu), (true, 1426));
    let home = HomeAddress(ip("2001:db8::100"));
    let router = EspEnd::from(&offer);
    let agreement = EspAgreement { authenticated_by: &KEY, home, bid: Bid(0), router, agent: end };
    let theirs = EspKeys::agree(&secret, &agreement, true).unwrap();
    let keys = pair(&bench).keys.unwrap();
    assert_eq!((keys.inbound, keys.outbound), (theirs.outbound, theirs.inbound));
}

/// The home agent answers each of the two alike, so whichever acknowledgement arrives completes the same keys.
#[test]
fn update_that_is_sent_again_repeats_its_offer() {
    let (mut bench, first) = begin(LoadSharing::Single);
    let second = updates(&bench.wait(2000)).pop().unwrap();
    assert!(second.message.sequence != first.message.sequence && offers(&second) == offers(&first));
    bench.acknowledge_offers(&second, 1);
    let before = pair(&bench);
    // A refresh, long before the keys are old.
    let refresh = updates(&bench.wait(47_000)).pop().unwrap();
    assert_eq!(offers(&refresh), offers(&first));
    bench.acknowledge_offers(&refresh, 1);
    assert_eq!(pair(&bench), before);
    // The home agent has lost its associations, and answers anew.
    let again = updates(&bench.wait(92_000)).pop().unwrap();
    bench.acknowledge_offers(&again, 2);
    assert_eq!((pair(&bench).inbound, pair(&bench).outbound), (before.inbound, answer(2).1.spi));
    assert_ne!(pair(&bench).keys, before.keys);
}

#[test]
fn move_makes_another_offer_and_the_pair_before_serves_until_its_answer() {
    let (mut bench, sent) = begin(LoadSharing::Single);
    bench.acknowledge_offers(&sent, 1);
    let before = pair(&bench);
    bench.now = at(5000);
    let mut outputs = bench.advertise(WIFI, "2001:db8:9::/64");
    outputs.extend(bench.wait(6000));
    let moved = updates(&outputs).pop().unwrap();
    assert!(offers(&moved)[0].spi != offers(&sent)[0].spi && offers(&moved)[0].point != offers(&sent)[0].point);
    let path = bench.tunnel().unwrap().paths[0].clone();
    assert_eq!((path.encap.esp(), bench.tunnel().unwrap().paths.is_empty()), (Some(&before), false));
    bench.acknowledge_offers(&moved, 2);
    assert_eq!((pair(&bench).inbound, pair(&bench).outbound), (offers(&moved)[0].spi, answer(2).1.spi));
}

#[test]
fn first_update_after_eight_hours_renews_the_keys() {
    const EIGHT_HOURS: u64 = 8 * 3600;
    let (mut bench, sent) = begin(LoadSharing::Single);
    bench.acknowledge_offers(&sent, 1);
    let before = pair(&bench);
    let mut refresh = sent.clone();
    let mut seconds = 0;
    while offers(&refresh) == offers(&sent) {
        bench.acknowledge_offers(&refresh, 1);
        let mut outputs = Vec::new();
        while updates(&outputs).is_empty() {
            seconds += 10;
            outputs.extend(bench.wait(seconds * 1000));
            outputs.extend(bench.advertise(WIFI, "2001:db8:1::/64"));
        }
        refresh = updates(&outputs).pop().unwrap();
    }
    assert!((EIGHT_HOURS..EIGHT_HOURS + 60).contains(&seconds), "renewed after {seconds} s");
    assert_eq!(pair(&bench), before, "the pair before serves until the answer");
    bench.acknowledge_offers(&refresh, 2);
    assert_eq!((pair(&bench).inbound, pair(&bench).outbound), (offers(&refresh)[0].spi, answer(2).1.spi));
}

#[test]
fn home_agent_without_an_answer_gets_no_data() {
    let (mut bench, sent) = begin(LoadSharing::Single);
    let by_wireguard = WireguardKey { bid: Bid(0), port: 4192, public_key: [2; 32] };
    let options = vec![MobilityOption::WireguardKey(by_wireguard)];
    let outputs = bench.acknowledge_with(&sent, Status::ACCEPTED, AckFlags::ROUTER, sent.message.sequence, options);
    assert!(bench.tunnel().is_none_or(|tunnel| tunnel.paths.is_empty()), "{:?}", bench.tunnel());
    assert!(updates(&outputs).iter().any(|update| update.message.lifetime_units == 0), "the binding ends");
    assert_eq!(bench.esp_fault(), Some(FaultKind::NotEncrypted));
    assert!(format!("{outputs:?}").contains("write encrypt = \\\"esp\\\" in its [home_agent]"), "{outputs:?}");
}

#[test]
fn refusal_by_a_home_agent_of_another_method_has_its_cure() {
    let (mut bench, sent) = begin(LoadSharing::Single);
    let outputs = bench.acknowledge(&sent, Status::ADMINISTRATIVELY_PROHIBITED);
    assert_eq!(bench.esp_fault(), Some(FaultKind::NotEncrypted), "{outputs:?}");
    assert!(format!("{outputs:?}").contains("it may ask for another method"), "{outputs:?}");
}

#[test]
fn answer_off_the_curve_or_to_another_offer_completes_nothing() {
    let (mut bench, sent) = begin(LoadSharing::Single);
    let offer = offers(&sent)[0];
    let (_, end) = answer(1);
    let off = EspKey { point: [0xff; 33], ..end.option(Bid(0), offer.spi) };
    let other = end.option(Bid(0), offer.spi ^ 1);
    for option in [off, other] {
        let options = vec![MobilityOption::EspKey(option)];
        bench.acknowledge_with(&sent, Status::ACCEPTED, AckFlags::ROUTER, sent.message.sequence, options);
        assert!(bench.paths().is_empty(), "{option:?}");
    }
}

#[test]
fn each_path_has_a_pair_of_its_own() {
    let (mut bench, sent) = begin(LoadSharing::Weighted);
    bench.acknowledge_offers(&sent, 1);
    bench.link(CELL, true);
    let mut outputs = bench.advertise(CELL, "2001:db8:2::/64");
    outputs.extend(bench.wait(1000));
    let second = updates(&outputs).pop().unwrap();
    let [first_offer, second_offer] = offers(&second)[..] else { panic!("{second:?}") };
    assert_eq!((first_offer, second_offer.bid), (offers(&sent)[0], Bid(2)), "that of the first path stays");
    bench.acknowledge_offers(&second, 2);
    let paths = bench.tunnel().unwrap().paths.clone();
    let spis: Vec<u32> = paths.iter().filter_map(|path| Some(path.encap.esp()?.inbound)).collect();
    assert!(spis.len() == paths.len() && spis.contains(&first_offer.spi) && spis.contains(&second_offer.spi));
}
