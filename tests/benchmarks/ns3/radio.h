// Ad hoc Wi-Fi stations in ns-3 with the radio of emulation.radio, by options of the command line.
//
// 802.11a: emulation.radio's standard "g" above 4.9 GHz.  It is the same OFDM PHY; ns-3's "g" would
// acknowledge at DSSS rates and use long slots, as a network with 802.11b stations has to.
// 802.11n (--streams above 0): on channel 36, the primary one of 40 MHz.

#ifndef PUBSUB_TESTBED_RADIO_H
#define PUBSUB_TESTBED_RADIO_H

#include "ns3/core-module.h"
#include "ns3/network-module.h"
#include "ns3/propagation-module.h"
#include "ns3/wifi-module.h"

#include <cmath>
#include <cstdint>
#include <string>

struct Radio
{
    std::string propagation{"log-distance"}; //!< friis, log-distance, two-ray-ground, unit-disk
    double frequency{5180};                  //!< MHz
    double exponent{3};
    double antennaHeight{1.5}; //!< metres
    double range{250};         //!< metres, of the unit disk
    double txDbm{20};
    double noiseFigure{7};
    double floorDbm{-104}; //!< weaker frames do not even count as interference
    double senseDbm{-93};  //!< preamble detection and carrier sense
    double senseSnr{1};    //!< dB, preamble detection under interference
    double captureDb{10};
    double captureWindow{16}; //!< microseconds after the preamble's detection
    uint32_t attempts{8};     //!< transmissions of a unicast
    uint32_t longAttempts{4};          //!< the same after RTS and CTS
    uint32_t rts{65535};               //!< bytes above which a unicast follows RTS and CTS
    uint32_t queue{128};
    std::string mode{"OfdmRate6Mbps"}; //!< of unicasts, or "ideal"
    double ber{1.28e-5};               //!< of ideal rate control
    uint32_t streams{0};               //!< of 802.11n
    uint32_t width{20};                //!< MHz
    bool shortGuard{false};
    uint32_t ampdu{65535};             //!< bytes

    void AddTo(ns3::CommandLine& cmd)
    {
        cmd.AddValue("propagation", "friis, log-distance, two-ray-ground, unit-disk", propagation);
        cmd.AddValue("frequency", "MHz", frequency);
        cmd.AddValue("exponent", "of log-distance", exponent);
        cmd.AddValue("antennaHeight", "metres", antennaHeight);
        cmd.AddValue("range", "metres", range);
        cmd.AddValue("txDbm", "transmit power", txDbm);
        cmd.AddValue("noiseFigure", "dB", noiseFigure);
        cmd.AddValue("floorDbm", "least power of interference", floorDbm);
        cmd.AddValue("senseDbm", "least power that is noticed", senseDbm);
        cmd.AddValue("senseSnr", "least SINR of a preamble, dB", senseSnr);
        cmd.AddValue("captureDb", "margin of capture", captureDb);
        cmd.AddValue("captureWindow", "microseconds", captureWindow);
        cmd.AddValue("attempts", "transmissions of a unicast", attempts);
        cmd.AddValue("longAttempts", "transmissions of a unicast with RTS", longAttempts);
        cmd.AddValue("rts", "bytes above which a unicast follows RTS and CTS", rts);
        cmd.AddValue("queue", "frames", queue);
        cmd.AddValue("mode", "rate of unicasts, or ideal", mode);
        cmd.AddValue("ber", "bit error ratio at which ideal rate control changes", ber);
        cmd.AddValue("streams", "802.11n with so many streams", streams);
        cmd.AddValue("width", "MHz of 802.11n", width);
        cmd.AddValue("shortGuard", "short guard interval", shortGuard);
        cmd.AddValue("ampdu", "bytes of an A-MPDU", ampdu);
    }

    ns3::Ptr<ns3::PropagationLossModel> Loss() const
    {
        using namespace ns3;
        const double hertz = frequency * 1e6;
        if (propagation == "friis")
        {
            auto loss = CreateObject<FriisPropagationLossModel>();
            loss->SetFrequency(hertz);
            return loss;
        }
        if (propagation == "two-ray-ground")
        {
            auto loss = CreateObject<TwoRayGroundPropagationLossModel>();
            loss->SetFrequency(hertz);
            loss->SetHeightAboveZ(antennaHeight);
            return loss;
        }
        if (propagation == "unit-disk")
        {
            auto loss = CreateObject<RangePropagationLossModel>();
            loss->SetAttribute("MaxRange", DoubleValue(range));
            return loss;
        }
        NS_ABORT_MSG_UNLESS(propagation == "log-distance", "no such propagation model");
        auto loss = CreateObject<LogDistancePropagationLossModel>();
        loss->SetPathLossExponent(exponent);
        loss->SetReference(1.0, 20 * std::log10(4 * M_PI * hertz / 299792458.0));
        return loss;
    }

    ns3::NetDeviceContainer Install(const ns3::NodeContainer& nodes) const
    {
        using namespace ns3;
        Config::SetDefault("ns3::WifiMacQueue::MaxSize",
                           QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, queue)));
        Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(1e6)));
        auto channel = CreateObject<YansWifiChannel>();
        channel->SetPropagationLossModel(Loss());
        channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());
        YansWifiPhyHelper phy;
        phy.SetChannel(channel);
        phy.SetErrorRateModel("ns3::NistErrorRateModel");
        phy.SetPreambleDetectionModel("ns3::ThresholdPreambleDetectionModel",
                                      "Threshold",
                                      DoubleValue(senseSnr),
                                      "MinimumRssi",
                                      DoubleValue(senseDbm));
        phy.SetFrameCaptureModel("ns3::SimpleFrameCaptureModel",
                                 "Margin",
                                 DoubleValue(captureDb),
                                 "CaptureWindow",
                                 TimeValue(NanoSeconds(std::llround(captureWindow * 1e3))));
        phy.Set("TxPowerStart", DoubleValue(txDbm));
        phy.Set("TxPowerEnd", DoubleValue(txDbm));
        phy.Set("RxNoiseFigure", DoubleValue(noiseFigure));
        phy.Set("RxSensitivity", DoubleValue(floorDbm));
        phy.Set("CcaSensitivity", DoubleValue(senseDbm));
        phy.Set("CcaEdThreshold", DoubleValue(senseDbm));
        WifiHelper wifi;
        wifi.SetStandard(streams ? WIFI_STANDARD_80211n : WIFI_STANDARD_80211a);
        if (streams)
        {
            phy.Set("ChannelSettings",
                    StringValue(width == 40 ? "{38, 40, BAND_5GHZ, 0}" : "{36, 20, BAND_5GHZ, 0}"));
            phy.Set("Antennas", UintegerValue(streams));
            phy.Set("MaxSupportedTxSpatialStreams", UintegerValue(streams));
            phy.Set("MaxSupportedRxSpatialStreams", UintegerValue(streams));
            wifi.ConfigHtOptions("ShortGuardIntervalSupported", BooleanValue(shortGuard));
        }
        if (mode == "ideal")
        {
            wifi.SetRemoteStationManager("ns3::IdealWifiManager", "BerThreshold", DoubleValue(ber));
        }
        else
        {
            wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                         "DataMode",
                                         StringValue(mode),
                                         "ControlMode",
                                         StringValue(streams ? "OfdmRate24Mbps" : "OfdmRate6Mbps"));
        }
#if NS3_MINOR >= 44
        Config::SetDefault("ns3::WifiMac::FrameRetryLimit", UintegerValue(attempts));
#else
        Config::SetDefault("ns3::WifiRemoteStationManager::MaxSsrc", UintegerValue(attempts));
        Config::SetDefault("ns3::WifiRemoteStationManager::MaxSlrc", UintegerValue(longAttempts));
#endif
        Config::SetDefault("ns3::WifiRemoteStationManager::RtsCtsThreshold", UintegerValue(rts));
        Config::SetDefault("ns3::WifiRemoteStationManager::NonUnicastMode",
                           StringValue("OfdmRate6Mbps"));
        WifiMacHelper mac;
        mac.SetType("ns3::AdhocWifiMac",
                    "QosSupported",
                    BooleanValue(streams > 0),
                    "BE_MaxAmpduSize",
                    UintegerValue(ampdu));
        return wifi.Install(phy, mac, nodes);
    }
};

#endif
