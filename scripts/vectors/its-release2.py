#!/usr/bin/env python3
"""Makes the golden vectors of Release 2 messages: wire/tests/wire/vectors/its-release2.tsv.

The codec is that of the Python package asn1tools (0.169). The ASN.1 modules are those that ETSI publishes: CAM (TS 103 900
V2.2.1) and DENM (TS 103 831 V2.2.1), each with all modules that it imports, as the common data dictionary (TS 102 894-2, cdd
major version 4), in one file. "WITH SUCCESSORS" is removed, which asn1tools does not know. The content of extension containers
is made up.

A line: name, octets; what they contain is said by the test (wire/tests/wire/its.rs).

usage: its-release2.py CAM-MODULES DENM-MODULES > wire/tests/wire/vectors/its-release2.tsv
"""

import sys

import asn1tools

ALTITUDE = {"altitudeValue": 52000, "altitudeConfidence": "alt-005-00"}
PLACE = {"latitude": 480000001, "longitude": 110000002, "altitude": ALTITUDE}
# The names of the components of the ellipse differ, their sizes do not.
CAM_PLACE = PLACE | {
    "positionConfidenceEllipse": {
        "semiMajorAxisLength": 100,
        "semiMinorAxisLength": 50,
        "semiMajorAxisOrientation": 900,
    }
}
DENM_PLACE = PLACE | {
    "positionConfidenceEllipse": {
        "semiMajorConfidence": 100,
        "semiMinorConfidence": 50,
        "semiMajorOrientation": 900,
    }
}
POINT = {"pathPosition": {"deltaLatitude": -10, "deltaLongitude": 20, "deltaAltitude": 12800}}
VEHICLE = {
    "heading": {"headingValue": 900, "headingConfidence": 10},
    "speed": {"speedValue": 1390, "speedConfidence": 5},
    "driveDirection": "forward",
    "vehicleLength": {"vehicleLengthValue": 42, "vehicleLengthConfidenceIndication": "noTrailerPresent"},
    "vehicleWidth": 18,
    "longitudinalAcceleration": {"value": -3, "confidence": 102},
    "curvature": {"curvatureValue": 10, "curvatureConfidence": "unavailable"},
    "curvatureCalculationMode": "yawRateUsed",
    "yawRate": {"yawRateValue": -5, "yawRateConfidence": "unavailable"},
}
OPTIONS = {
    "accelerationControl": (b"\xaa", 7),
    "lanePosition": 2,
    "steeringWheelAngle": {"steeringWheelAngleValue": -7, "steeringWheelAngleConfidence": 2},
    "lateralAcceleration": {"value": 4, "confidence": 3},
    "verticalAcceleration": {"value": 1, "confidence": 2},
    "performanceClass": 3,
}
LOW = (
    "basicVehicleContainerLowFrequency",
    {"vehicleRole": "emergency", "exteriorLights": (b"\x81", 8), "pathHistory": [POINT | {"pathDeltaTime": 100}]},
)
EMERGENCY = (
    "emergencyContainer",
    {
        "lightBarSirenInUse": (b"\xc0", 2),
        "incidentIndication": {"ccAndScc": ("accident2", 3)},
        "emergencyPriority": (b"\x80", 2),
    },
)
EXTENSIONS = [
    {"containerId": 1, "containerData": b"\x12\x34\x56"},
    {"containerId": 3, "containerData": bytes(5)},
]


def cam(high, **others):
    basic = {"stationType": 5, "referencePosition": CAM_PLACE}
    parameters = {"basicContainer": basic, "highFrequencyContainer": high} | others
    header = {"protocolVersion": 2, "messageId": 2, "stationId": 4711}
    return {"header": header, "cam": {"generationDeltaTime": 54321, "camParameters": parameters}}


def vehicle(**options):
    return ("basicVehicleContainerHighFrequency", VEHICLE | options)


CAMS = {
    "cam-vehicle": cam(vehicle()),
    "cam-vehicle-full": cam(vehicle(**OPTIONS), lowFrequencyContainer=LOW, specialVehicleContainer=EMERGENCY),
    "cam-roadside": cam(("rsuContainerHighFrequency", {})),
    "cam-extensions": cam(vehicle(), lowFrequencyContainer=LOW, extensionContainers=EXTENSIONS),
}

SITUATION = {"informationQuality": 3, "eventType": {"ccAndScc": ("stationaryVehicle94", 2)}}
LOCATION = {"eventSpeed": {"speedValue": 0, "speedConfidence": 5}, "detectionZonesToEventPosition": [[POINT]]}
LINKED = {"linkedDenms": [{"originatingStationId": 1, "sequenceNumber": 2}], "eventEnd": 500}
IVIM = {
    "serviceProviderId": {"countryCode": (b"\x12\x00", 10), "providerIdentifier": 5},
    "iviIdentificationNumber": 7,
}
OBJECT = {
    "measurementDeltaTime": 0,
    "position": {"xCoordinate": {"value": 100, "confidence": 10}, "yCoordinate": {"value": -5, "confidence": 10}},
}


def denm(management=None, **containers):
    management = {
        "actionId": {"originatingStationId": 4711, "sequenceNumber": 9},
        "detectionTime": 700000000000,
        "referenceTime": 700000000500,
        "eventPosition": DENM_PLACE,
        "validityDuration": 120,
        "stationType": 5,
    } | (management or {})
    header = {"protocolVersion": 2, "messageId": 1, "stationId": 4711}
    return {"header": header, "denm": {"management": management} | containers}


DENMS = {
    "denm-plain": denm(situation=SITUATION, location=LOCATION),
    "denm-linked-denms": denm(situation=SITUATION | LINKED, location=LOCATION),
    "denm-linked-ivims": denm(situation=SITUATION, location=LOCATION | {"linkedIvims": [IVIM]}),
    "denm-pre-crash": denm(
        situation=SITUATION,
        location=LOCATION,
        alacarte={
            "externalTemperature": -3,
            "preCrash": {"perceivedPreCrashObject": OBJECT, "timeToCollision": 500},
        },
    ),
    "denm-termination": denm({"termination": "isCancellation"}),
}


def main():
    for modules, kind, messages in zip(sys.argv[1:3], ("CAM", "DENM"), (CAMS, DENMS)):
        codec = asn1tools.compile_files(modules, "uper")
        for name, message in messages.items():
            print(f"{name}\t{codec.encode(kind, message).hex()}")


if __name__ == "__main__":
    main()
