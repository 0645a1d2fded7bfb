#!/usr/bin/env python3
"""Makes the golden vectors of messages that roam6 only receives: wire/tests/wire/vectors/its-received.tsv.

The codec of VAM and CPM is that of the Python package asn1tools (0.169). The ASN.1 modules are those that ETSI publishes: VAM
(TS 103 300-3 V2.3.1) and CPM (TS 103 324 V2.1.1), each with all modules that it imports, as the common data dictionary
(TS 102 894-2, cdd major version 4), in one file. "WITH SUCCESSORS" is removed, which asn1tools does not know. MAPEM, SPATEM and
IVIM are made with the Python package pycrate (0.8.1), which contains the modules of TS 103 301. VAMs and CPMs, read and
written again by pycrate from the same modules, have the same octets.

A line: name, octets; what they contain is said by the test (wire/tests/wire/its_received.rs).

usage: its-received.py VAM-MODULES CPM-MODULES > wire/tests/wire/vectors/its-received.tsv
"""

import sys

import asn1tools
from pycrate_asn1dir import ITS_IS

ALTITUDE = {"altitudeValue": 52000, "altitudeConfidence": "alt-005-00"}
PLACE = {"latitude": 480000001, "longitude": 110000002, "altitude": ALTITUDE}
# The names of the components of the ellipse differ, their sizes do not.
VAM_PLACE = PLACE | {
    "positionConfidenceEllipse": {
        "semiMajorAxisLength": 100,
        "semiMinorAxisLength": 50,
        "semiMajorAxisOrientation": 900,
    }
}
CPM_PLACE = PLACE | {
    "positionConfidenceEllipse": {
        "semiMajorConfidence": 100,
        "semiMinorConfidence": 50,
        "semiMajorOrientation": 900,
    }
}
ANGLE = {"value": 1800, "confidence": 10}
MOVEMENT = {
    "heading": {"value": 900, "confidence": 10},
    "speed": {"speedValue": 139, "speedConfidence": 5},
    "longitudinalAcceleration": {
        "longitudinalAccelerationValue": -3,
        "longitudinalAccelerationConfidence": 102,
    },
}
LANE = {"transversalPosition": 2, "laneType": 13, "direction": 1}
SOURCE = {
    "usedDetectionInformation": (b"\x40\x00", 16),
    "usedStoredInformation": (b"\x08", 8),
    "confidenceValue": 95,
}
MAP = {
    "mapReference": ("intersection", {"region": 7, "id": 4242}),
    "laneId": 3,
    "longitudinalLanePosition": {
        "longitudinalLanePositionValue": 125,
        "longitudinalLanePositionConfidence": 9,
    },
}
POSITIONS = {
    "number": ("simplelanePosition", 14),
    "type": ("simpleLaneType", 13),
    "lane": ("detailedlanePosition", LANE),
    "default-lane": ("detailedlanePosition", {"transversalPosition": -1}),
    "borders": ("lanePositionWithLateralDetails", LANE | {"distanceToLeftBorder": 511, "distanceToRightBorder": 10}),
    "island": ("trafficIslandPosition", {"oneSide": LANE, "otherSide": {"transversalPosition": 1}}),
}
OPTIONS = {
    "curvature": {"curvatureValue": 10, "curvatureConfidence": "unavailable"},
    "curvatureCalculationMode": "yawRateUsed",
    "yawRate": {"yawRateValue": -5, "yawRateConfidence": "unavailable"},
    "lateralAcceleration": {"lateralAccelerationValue": 4, "lateralAccelerationConfidence": 3},
    "verticalAcceleration": {"verticalAccelerationValue": 1, "verticalAccelerationConfidence": 2},
    "vruLanePosition": {"lanePositionBased": POSITIONS["borders"], "mapBased": MAP, "confidence": SOURCE},
    "environment": 3,
    "movementControl": 1,
    "orientation": ANGLE,
    "rollAngle": ANGLE,
    "deviceUsage": 8,
}
LIGHTS = {"vehicular": (b"\x81", 8), "vruSpecific": (b"\x40", 8)}
CLUSTER = {
    "vruClusterInformation": {
        "clusterId": 9,
        "clusterBoundingBoxShape": ("circular", {"radius": 50}),
        "clusterCardinalitySize": 12,
    }
}
CLUSTER_CHANGE = {"clusterLeaveInfo": {"clusterId": 9, "clusterLeaveReason": 8}}
PREDICTION = {
    "safeDistance": [{"subjectStation": 1, "safeDistanceIndicator": True}],
    "accelerationChangeIndication": {"accelOrDecel": "decelerate", "actionDeltaTime": 20},
}


def vam(kind, movement=None, **containers):
    parameters = {
        "basicContainer": {"stationType": kind, "referencePosition": VAM_PLACE},
        "vruHighFrequencyContainer": MOVEMENT | (movement or {}),
    } | containers
    header = {"protocolVersion": 3, "messageId": 16, "stationId": 4711}
    return {"header": header, "vam": {"generationDeltaTime": 54321, "vamParameters": parameters}}


def profile(kind, number, **others):
    return {"profileAndSubprofile": (kind, number)} | others


VAMS = {
    "vam-pedestrian": vam(1),
    "vam-worker": vam(1, vruLowFrequencyContainer=profile("pedestrian", 2)),
    "vam-pedelec": vam(
        2,
        OPTIONS,
        vruLowFrequencyContainer=profile(
            "bicyclistAndLightVruVehicle", 7, sizeClass=2, exteriorLights=LIGHTS
        ),
    ),
    "vam-moped": vam(3, vruLowFrequencyContainer=profile("motorcyclist", 1)),
    "vam-cluster": vam(
        13,
        vruLowFrequencyContainer=profile("animal", 2),
        vruClusterInformationContainer=CLUSTER,
        vruClusterOperationContainer=CLUSTER_CHANGE,
        vruMotionPredictionContainer=PREDICTION,
    ),
} | {
    f"vam-lane-{name}": vam(
        1,
        {"vruLanePosition": {"lanePositionBased": position, "confidence": SOURCE}},
        vruLowFrequencyContainer=profile("pedestrian", 2),
    )
    for name, position in POSITIONS.items()
}

COORDINATE = {"value": 100, "confidence": 10}
OBJECT = {
    "objectId": 17,
    "measurementDeltaTime": -20,
    "position": {"xCoordinate": COORDINATE, "yCoordinate": COORDINATE},
    "objectAge": 1500,
}


def cpm(containers, **management):
    management = {"referenceTime": 700000000000, "referencePosition": CPM_PLACE} | management
    header = {"protocolVersion": 2, "messageId": 14, "stationId": 4711}
    payload = {
        "managementContainer": management,
        "cpmContainers": [{"containerId": number, "containerData": data} for number, data in containers],
    }
    return {"header": header, "payload": payload}


def cpms(codec):
    vehicle = {"orientationAngle": ANGLE}
    trailer = {"refPointId": 0, "hitchPointOffset": 5, "hitchAngle": ANGLE}
    full = vehicle | {"pitchAngle": ANGLE, "rollAngle": ANGLE, "trailerDataSet": [trailer]}
    vehicle, full = (codec.encode("OriginatingVehicleContainer", it) for it in (vehicle, full))
    roadside = codec.encode("OriginatingRsuContainer", {"mapReference": ("roadsegment", {"id": 5})})
    objects = {"numberOfPerceivedObjects": 40, "perceivedObjects": [OBJECT] * 30}
    objects = codec.encode("PerceivedObjectContainer", objects)
    rate = {"mantissa": 10, "exponent": 0}
    return {
        "cpm-vehicle": cpm([(1, vehicle)]),
        "cpm-objects": cpm(
            [(1, full), (5, objects)],
            segmentationInfo={"totalMsgNo": 2, "thisMsgNo": 1},
            messageRateRange={"messageRateMin": rate, "messageRateMax": rate},
        ),
        "cpm-roadside": cpm([(2, roadside), (5, objects)]),
        "cpm-unknown": cpm([(9, bytes(200)), (16, b"\x12")]),
    }


def infrastructure():
    """The least content of each message."""
    signal = {"signalGroup": 1, "state-time-speed": [{"eventState": "stop-And-Remain"}]}
    intersection = {"id": {"id": 42}, "revision": 1, "status": (0, 16), "states": [signal]}
    mandatory = {
        "serviceProviderId": {"countryCode": (0x48, 10), "providerIdentifier": 5},
        "iviIdentificationNumber": 7,
        "iviStatus": 0,
    }
    return {
        "mapem": (ITS_IS.MAPEM_PDU_Descriptions.MAPEM, 5, {"map": {"msgIssueRevision": 1}}),
        "spatem": (ITS_IS.SPATEM_PDU_Descriptions.SPATEM, 4, {"spat": {"intersections": [intersection]}}),
        "ivim": (ITS_IS.IVIM_PDU_Descriptions.IVIM, 6, {"ivi": {"mandatory": mandatory}}),
    }


def main():
    vam_codec, cpm_codec = (asn1tools.compile_files(modules, "uper") for modules in sys.argv[1:3])
    for name, message in VAMS.items():
        print(f"{name}\t{vam_codec.encode('VAM', message).hex()}")
    for name, message in cpms(cpm_codec).items():
        print(f"{name}\t{cpm_codec.encode('CollectivePerceptionMessage', message).hex()}")
    for name, (codec, kind, content) in infrastructure().items():
        header = {"protocolVersion": 2, "messageID": kind, "stationID": 4711}
        codec.set_val({"header": header} | content)
        print(f"{name}\t{codec.to_uper().hex()}")


if __name__ == "__main__":
    main()
