"""The information elements of IPFIX: their numbers, names and types as IANA registers them; NetFlow v9 shares them.

An element of an enterprise has a number of that enterprise. The reverse direction of a biflow has its own enterprise,
29305, with the numbers of the forward elements (RFC 5103); their names are "reverse" and the forward name.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

REVERSE: Final = 29305
"""The enterprise number under which a biflow gives the reverse direction."""

_REGISTERED: Final = {
    "unsigned8": """
        4 protocolIdentifier, 5 ipClassOfService, 9 sourceIPv4PrefixLength, 13 destinationIPv4PrefixLength,
        29 sourceIPv6PrefixLength, 30 destinationIPv6PrefixLength, 33 igmpType, 35 samplingAlgorithm,
        38 engineType, 39 engineId, 46 mplsTopLabelType, 48 samplerId, 49 samplerMode, 51 classId,
        52 minimumTTL, 53 maximumTTL, 55 postIpClassOfService, 60 ipVersion, 61 flowDirection,
        91 mplsTopLabelPrefixLength, 98 postIpDiffServCodePoint, 101 classificationEngineId, 136 flowEndReason,
        146 wlanChannelId, 176 icmpTypeIPv4, 177 icmpCodeIPv4, 178 icmpTypeIPv6, 179 icmpCodeIPv6,
        188 tcpHeaderLength, 189 ipHeaderLength, 192 ipTTL, 193 nextHeaderIPv6, 195 ipDiffServCodePoint,
        196 ipPrecedence, 197 fragmentFlags, 200 mplsTopLabelTTL, 203 mplsTopLabelExp, 206 isMulticast,
        207 ipv4IHL, 214 exportProtocolVersion, 215 exportTransportProtocol, 229 natOriginatingAddressRealm,
        230 natEvent, 233 firewallEvent, 237 postMplsTopLabelExp, 239 biflowDirection, 240 ethernetHeaderLength,
        244 dot1qPriority, 246 dot1qCustomerPriority, 248 metroEvcType, 257 postIpPrecedence, 263 messageScope,
        267 sessionScope, 277 observationPointType, 294 bgpValidityState, 297 natType,
        339 informationElementDataType, 344 informationElementSemantics, 384 valueDistributionMethod,
        413 dot1qServiceInstancePriority,
        448 mibCaptureTimeSemantics, 492 srhFlagsIPv6, 498 srhSegmentsIPv6Left, 500 srhIPv6ActiveSegmentType,
        501 srhSegmentIPv6LocatorLength, 505 gtpuFlags, 506 gtpuMsgType, 509 gtpuQFI, 510 gtpuPduType
    """,
    "unsigned16": """
        6 tcpControlBits, 7 sourceTransportPort, 11 destinationTransportPort, 32 icmpTypeCodeIPv4,
        36 flowActiveTimeout, 37 flowIdleTimeout, 58 vlanId, 59 postVlanId, 88 fragmentOffset,
        102 layer2packetSectionOffset, 103 layer2packetSectionSize, 139 icmpTypeCodeIPv6, 145 templateId,
        180 udpSourcePort, 181 udpDestinationPort, 182 tcpSourcePort, 183 tcpDestinationPort, 186 tcpWindowSize,
        187 tcpUrgentPointer, 190 totalLengthIPv4, 191 payloadLengthIPv6, 205 udpMessageLength,
        216 collectorTransportPort, 217 exporterTransportPort, 227 postNAPTSourceTransportPort,
        228 postNAPTDestinationTransportPort, 238 tcpWindowScale, 241 ethernetPayloadLength,
        242 ethernetTotalLength, 243 dot1qVlanId, 245 dot1qCustomerVlanId, 250 pseudoWireType,
        254 postDot1qVlanId, 255 postDot1qCustomerVlanId, 256 ethernetType, 259 exportSctpStreamId,
        285 anonymizationFlags, 286 anonymizationTechnique, 287 informationElementIndex,
        303 informationElementId, 304 selectorAlgorithm, 312 dataLinkFrameSize, 345 informationElementUnits,
        361 portRangeStart, 362 portRangeEnd, 363 portRangeStepSize, 364 portRangeNumPorts,
        370 rtpSequenceNumber, 390 flowSelectorAlgorithm, 400 hashFlowDomain, 408 dataLinkFrameType,
        409 sectionOffset, 410 sectionExportedOctets,
        457 httpStatusCode, 458 sourceTransportPortsLimit, 493 srhTagIPv6, 502 srhSegmentIPv6EndpointBehavior,
        503 transportChecksum, 508 gtpuSequenceNum
    """,
    "unsigned32": """
        10 ingressInterface, 14 egressInterface, 16 bgpSourceAsNumber, 17 bgpDestinationAsNumber,
        21 flowEndSysUpTime, 22 flowStartSysUpTime, 31 flowLabelIPv6, 34 samplingInterval,
        50 samplerRandomInterval, 54 fragmentIdentification, 64 ipv6ExtensionHeaders, 87 flagsAndSamplerId,
        89 forwardingStatus, 92 srcTrafficIndex, 93 dstTrafficIndex, 99 multicastReplicationFactor,
        128 bgpNextAdjacentAsNumber, 129 bgpPrevAdjacentAsNumber, 141 lineCardId, 142 portId,
        143 meteringProcessId, 144 exportingProcessId, 149 observationDomainId, 158 flowStartDeltaMicroseconds,
        159 flowEndDeltaMicroseconds, 161 flowDurationMilliseconds, 162 flowDurationMicroseconds,
        184 tcpSequenceNumber, 185 tcpAcknowledgementNumber, 194 mplsPayloadLength, 201 mplsLabelStackLength,
        202 mplsLabelStackDepth, 204 ipPayloadLength, 208 ipv4Options, 213 exportInterface, 234 ingressVRFID,
        235 egressVRFID, 249 pseudoWireId, 251 pseudoWireControlWord, 252 ingressPhysicalInterface,
        253 egressPhysicalInterface, 278 connectionCountNew, 283 natPoolId, 295 IPSecSPI, 296 greKey,
        305 samplingPacketInterval, 306 samplingPacketSpace, 307 samplingTimeInterval, 308 samplingTimeSpace,
        309 samplingSize, 310 samplingPopulation, 346 privateEnterpriseNumber, 368 ingressInterfaceType,
        369 egressInterfaceType, 380 distinctCountOfSourceIPv4Address,
        381 distinctCountOfDestinationIPv4Address, 385 rfc3550JitterMilliseconds, 386 rfc3550JitterMicroseconds,
        387 rfc3550JitterNanoseconds, 405 originalObservationDomainId, 406 intermediateProcessId,
        412 dot1qServiceInstanceId, 463 natInstanceID, 466 natQuotaExceededEvent, 467 natThresholdEvent,
        440 mibObjectValueGauge, 441 mibObjectValueTimeTicks, 442 mibObjectValueUnsigned, 446 mibSubIdentifier,
        471 maxSessionEntries, 472 maxBIBEntries, 473 maxEntriesPerUser, 474 maxSubscribers, 475
        maxFragmentsPendingReassembly, 476 addressPoolHighThreshold, 477 addressPoolLowThreshold, 478
        addressPortMappingHighThreshold, 479 addressPortMappingLowThreshold, 480
        addressPortMappingPerUserHighThreshold, 481 globalAddressMappingHighThreshold, 483 bgpCommunity, 507
        gtpuTEid
    """,
    "unsigned64": """
        1 octetDeltaCount, 2 packetDeltaCount, 3 deltaFlowCount, 19 postMCastPacketDeltaCount,
        20 postMCastOctetDeltaCount, 23 postOctetDeltaCount, 24 postPacketDeltaCount, 25 minimumIpTotalLength,
        26 maximumIpTotalLength, 40 exportedOctetTotalCount, 41 exportedMessageTotalCount,
        42 exportedFlowRecordTotalCount, 85 octetTotalCount, 86 packetTotalCount, 132 droppedOctetDeltaCount,
        133 droppedPacketDeltaCount, 134 droppedOctetTotalCount, 135 droppedPacketTotalCount,
        137 commonPropertiesId, 138 observationPointId, 148 flowId, 163 observedFlowTotalCount,
        164 ignoredPacketTotalCount, 165 ignoredOctetTotalCount, 166 notSentFlowTotalCount,
        167 notSentPacketTotalCount, 168 notSentOctetTotalCount, 171 postOctetTotalCount,
        172 postPacketTotalCount, 173 flowKeyIndicator, 174 postMCastPacketTotalCount,
        175 postMCastOctetTotalCount, 198 octetDeltaSumOfSquares, 199 octetTotalSumOfSquares, 209 tcpOptions,
        218 tcpSynTotalCount, 219 tcpFinTotalCount, 220 tcpRstTotalCount, 221 tcpPshTotalCount,
        222 tcpAckTotalCount, 223 tcpUrgTotalCount, 224 ipTotalLength, 231 initiatorOctets, 232 responderOctets,
        279 connectionSumDurationSeconds, 280 connectionTransactionId, 298 initiatorPackets,
        299 responderPackets, 301 selectionSequenceId, 302 selectorId, 318 selectorIdTotalPktsObserved,
        319 selectorIdTotalPktsSelected, 326 digestHashValue, 327 hashIPPayloadOffset, 328 hashIPPayloadSize,
        329 hashOutputRangeMin, 330 hashOutputRangeMax, 331 hashSelectedRangeMin, 332 hashSelectedRangeMax,
        334 hashInitialiserValue, 342 informationElementRangeBegin, 343 informationElementRangeEnd,
        351 layer2SegmentId, 352 layer2OctetDeltaCount, 353 layer2OctetTotalCount,
        354 ingressUnicastPacketTotalCount, 355 ingressMulticastPacketTotalCount,
        356 ingressBroadcastPacketTotalCount, 357 egressUnicastPacketTotalCount,
        358 egressBroadcastPacketTotalCount, 375 originalFlowsPresent, 376 originalFlowsInitiated,
        377 originalFlowsCompleted, 378 distinctCountOfSourceIPAddress, 379 distinctCountOfDestinationIPAddress,
        382 distinctCountOfSourceIPv6Address, 383 distinctCountOfDestinationIPv6Address,
        391 flowSelectedOctetDeltaCount, 392 flowSelectedPacketDeltaCount, 393 flowSelectedFlowDeltaCount,
        394 selectorIDTotalFlowsObserved, 395 selectorIDTotalFlowsSelected, 396 samplingFlowInterval,
        397 samplingFlowSpacing, 398 flowSamplingTimeInterval, 399 flowSamplingTimeSpacing,
        401 transportOctetDeltaCount, 402 transportPacketDeltaCount, 407 ignoredDataRecordTotalCount,
        417 postLayer2OctetDeltaCount, 418 postMCastLayer2OctetDeltaCount, 420 postLayer2OctetTotalCount,
        421 postMCastLayer2OctetTotalCount, 422 minimumLayer2TotalLength, 423 maximumLayer2TotalLength,
        424 droppedLayer2OctetDeltaCount, 425 droppedLayer2OctetTotalCount, 426 ignoredLayer2OctetTotalCount,
        427 notSentLayer2OctetTotalCount, 428 layer2OctetDeltaSumOfSquares, 429 layer2OctetTotalSumOfSquares,
        430 layer2FrameDeltaCount, 431 layer2FrameTotalCount, 433 ignoredLayer2FrameTotalCount,
        439 mibObjectValueCounter, 447 mibIndexIndicator
    """,
    "float64": """
        311 samplingProbability, 320 absoluteError, 321 relativeError, 336 upperCILimit, 337 lowerCILimit,
        338 confidenceLevel
    """,
    "signed32": """
        434 mibObjectValueInteger
    """,
    "boolean": """
        276 dataRecordsReliability, 333 hashDigestOutput, 388 dot1qDEI, 389 dot1qCustomerDEI
    """,
    "macAddress": """
        56 sourceMacAddress, 57 postDestinationMacAddress, 80 destinationMacAddress, 81 postSourceMacAddress,
        365 staMacAddress, 367 wtpMacAddress, 414 dot1qCustomerSourceMacAddress,
        415 dot1qCustomerDestinationMacAddress
    """,
    "string": """
        82 interfaceName, 83 interfaceDescription, 84 samplerName, 94 applicationDescription,
        96 applicationName, 100 className, 147 wlanSSID, 236 VRFname, 247 metroEvcId, 284 natPoolName,
        288 p2pTechnology, 289 tunnelTechnology, 290 encryptedTechnology, 300 observationDomainName,
        335 selectorName, 340 informationElementDescription, 341 informationElementName,
        348 virtualStationInterfaceName, 350 virtualStationName, 371 userName, 372 applicationCategoryName,
        373 applicationSubCategoryName, 374 applicationGroupName, 459 httpRequestMethod, 460 httpRequestHost,
        461 httpRequestTarget, 462 httpMessageVersion, 468 httpUserAgent, 469 httpContentType,
        470 httpReasonPhrase,
        450 mibContextName, 451 mibObjectName, 452 mibObjectDescription, 453 mibObjectSyntax, 454 mibModuleName,
        455 mobileIMSI, 456 mobileMSISDN
    """,
    "octetArray": """
        70 mplsTopLabelStackSection, 71 mplsLabelStackSection2, 72 mplsLabelStackSection3,
        73 mplsLabelStackSection4, 74 mplsLabelStackSection5, 75 mplsLabelStackSection6,
        76 mplsLabelStackSection7, 77 mplsLabelStackSection8, 78 mplsLabelStackSection9,
        79 mplsLabelStackSection10, 90 mplsVpnRouteDistinguisher, 95 applicationId, 104 layer2packetSectionData,
        210 paddingOctets, 262 messageMD5Checksum, 266 opaqueOctets, 274 collectorCertificate,
        275 exporterCertificate, 291 basicList, 292 subTemplateList, 293 subTemplateMultiList,
        313 ipHeaderPacketSection, 314 ipPayloadPacketSection, 315 dataLinkFrameSection,
        316 mplsLabelStackSection, 317 mplsPayloadPacketSection, 347 virtualStationInterfaceId,
        349 virtualStationUUID, 411 dot1qServiceInstanceTag,
        435 mibObjectValueOctetString, 436 mibObjectValueOID, 437 mibObjectValueBits, 443 mibObjectValueTable,
        444 mibObjectValueRow, 445 mibObjectIdentifier, 449 mibContextEngineID, 464 internalAddressRealm, 465
        externalAddressRealm, 482 vpnIdentifier, 484 bgpSourceCommunityList, 485 bgpDestinationCommunityList,
        486 bgpExtendedCommunity, 487 bgpSourceExtendedCommunityList, 488 bgpDestinationExtendedCommunityList,
        489 bgpLargeCommunity, 490 bgpSourceLargeCommunityList, 491 bgpDestinationLargeCommunityList, 496
        srhSegmentIPv6BasicList, 497 srhSegmentIPv6ListSection, 499 srhIPv6Section, 504 icmpHeaderPacketSection,
        511 bgpSourceAsPathList, 512 bgpDestinationAsPathList
    """,
    "ipv4Address": """
        8 sourceIPv4Address, 12 destinationIPv4Address, 15 ipNextHopIPv4Address, 18 bgpNextHopIPv4Address,
        43 ipv4RouterSc, 44 sourceIPv4Prefix, 45 destinationIPv4Prefix, 47 mplsTopLabelIPv4Address,
        130 exporterIPv4Address, 211 collectorIPv4Address, 225 postNATSourceIPv4Address,
        226 postNATDestinationIPv4Address, 366 staIPv4Address, 403 originalExporterIPv4Address,
        432 pseudoWireDestinationIPv4Address,
        438 mibObjectValueIPAddress
    """,
    "ipv6Address": """
        27 sourceIPv6Address, 28 destinationIPv6Address, 62 ipNextHopIPv6Address, 63 bgpNextHopIPv6Address,
        131 exporterIPv6Address, 140 mplsTopLabelIPv6Address, 169 destinationIPv6Prefix, 170 sourceIPv6Prefix,
        212 collectorIPv6Address, 281 postNATSourceIPv6Address, 282 postNATDestinationIPv6Address,
        404 originalExporterIPv6Address,
        494 srhSegmentIPv6, 495 srhActiveSegmentIPv6
    """,
    "dateTimeSeconds": """
        150 flowStartSeconds, 151 flowEndSeconds, 260 maxExportSeconds, 261 maxFlowEndSeconds,
        264 minExportSeconds, 265 minFlowStartSeconds, 322 observationTimeSeconds
    """,
    "dateTimeMilliseconds": """
        152 flowStartMilliseconds, 153 flowEndMilliseconds, 160 systemInitTimeMilliseconds,
        258 collectionTimeMilliseconds, 269 maxFlowEndMilliseconds, 272 minFlowStartMilliseconds,
        323 observationTimeMilliseconds, 359 monitoringIntervalStartMilliSeconds,
        360 monitoringIntervalEndMilliSeconds
    """,
    "dateTimeMicroseconds": """
        154 flowStartMicroseconds, 155 flowEndMicroseconds, 268 maxFlowEndMicroseconds,
        271 minFlowStartMicroseconds, 324 observationTimeMicroseconds
    """,
    "dateTimeNanoseconds": """
        156 flowStartNanoseconds, 157 flowEndNanoseconds, 270 maxFlowEndNanoseconds,
        273 minFlowStartNanoseconds, 325 observationTimeNanoseconds
    """,
}


def _known(instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    if value not in TYPES:
        raise ValueError(f'"{value}" is no type of information elements; known are {", ".join(TYPES)}.')


TYPES: Final = (*_REGISTERED, "signed8", "signed16", "signed64", "float32")


@attrs.frozen
class Element:
    """The meaning of a field; `enterprise` 0 is IANA's registry and what NetFlow v9 exporters number."""

    name: str = attrs.field(validator=attrs.validators.min_len(1))
    number: int = attrs.field(validator=[attrs.validators.ge(0), attrs.validators.le(0xFFFF)])
    type: str = attrs.field(default="octetArray", validator=_known)
    enterprise: int = attrs.field(
        default=0, validator=[attrs.validators.ge(0), attrs.validators.le(0xFFFFFFFF)], kw_only=True
    )

    @property
    def key(self) -> tuple[int, int]:
        """Return the enterprise and the number, as templates name the element."""
        return self.enterprise, self.number


def _registry() -> dict[str, Element]:
    found: dict[str, Element] = {}
    for kind, listed in _REGISTERED.items():
        for entry in listed.split(","):
            number, name = entry.split()
            backward = "reverse" + name[0].upper() + name[1:]
            found[name] = Element(name, int(number), kind)
            found[backward] = Element(backward, int(number), kind, enterprise=REVERSE)
    return found


ELEMENTS: Final = _registry()
"""Every registered element and its reverse by name."""

_NUMBERED: Final = re.compile(r"(?:(\d{1,10})/)?(\d{1,5})")


def element(name: str) -> Element | None:
    """Return the element of a name; "6871/40" is number 40 of enterprise 6871, as bytes; None when there is none."""
    if (known := ELEMENTS.get(name)) is not None:
        return known
    numbered = _NUMBERED.fullmatch(name)
    if numbered is None or int(numbered[2]) > 0xFFFF or int(numbered[1] or 0) > 0xFFFFFFFF:
        return None
    return Element(name, int(numbered[2]), enterprise=int(numbered[1] or 0))
