// Frames of a list over static stations, without any network layer: what the MAC and PHY make of it.
//
// Reads "x y" of every station from --stations and "time source destination bytes" of every frame,
// in order of time, from --frames (destination -1: broadcast; bytes: as of an Ethernet frame).
// Prints "received SOURCE STATION FRAMES" and "sent SOURCE TRANSMISSIONS".

#include "radio.h"

#include "ns3/mobility-module.h"

#include <fstream>
#include <iostream>
#include <map>
#include <vector>

using namespace ns3;

namespace
{

struct Frame
{
    double time;
    int source, destination;
    uint32_t bytes;
};

constexpr uint16_t PROTOCOL = 0x88b5;   // IEEE 802, local experimental
constexpr uint32_t ETHERNET_HEADER = 14;

std::vector<Frame> g_frames;
NetDeviceContainer g_devices;
std::vector<uint64_t> g_sent;
std::map<std::pair<uint32_t, uint32_t>, uint64_t> g_received;

void
Send(std::size_t index)
{
    const Frame& frame = g_frames[index];
    uint32_t number = index;
    auto packet =
        Create<Packet>(reinterpret_cast<const uint8_t*>(&number), sizeof number);
    packet->AddPaddingAtEnd(frame.bytes - ETHERNET_HEADER - sizeof number);
    Address to = frame.destination < 0 ? Address(Mac48Address::GetBroadcast())
                                       : g_devices.Get(frame.destination)->GetAddress();
    g_devices.Get(frame.source)->Send(packet, to, PROTOCOL);
    if (++index < g_frames.size())
    {
        Simulator::Schedule(Seconds(g_frames[index].time) - Simulator::Now(), &Send, index);
    }
}

bool
Receive(Ptr<NetDevice> device, Ptr<const Packet> packet, uint16_t, const Address&)
{
    uint32_t index;
    packet->CopyData(reinterpret_cast<uint8_t*>(&index), sizeof index);
    g_received[{g_frames[index].source, device->GetNode()->GetId()}] += 1;
    return true;
}

void
CountTransmission(uint32_t node, Ptr<const Packet> packet, double)
{
    WifiMacHeader header;
    packet->PeekHeader(header);
    g_sent[node] += header.IsData();
}

} // namespace

int
main(int argc, char* argv[])
{
    Radio radio;
    std::string stations;
    std::string frames;
    double until = 0;
    CommandLine cmd(__FILE__);
    radio.AddTo(cmd);
    cmd.AddValue("stations", "file of positions", stations);
    cmd.AddValue("frames", "file of frames", frames);
    cmd.AddValue("until", "seconds", until);
    cmd.Parse(argc, argv);

    auto positions = CreateObject<ListPositionAllocator>();
    std::ifstream in(stations);
    for (double x, y; in >> x >> y;)
    {
        positions->Add(Vector(x, y, 0));
    }
    std::ifstream list(frames);
    for (Frame frame; list >> frame.time >> frame.source >> frame.destination >> frame.bytes;)
    {
        g_frames.push_back(frame);
    }
    NodeContainer nodes;
    nodes.Create(positions->GetSize());
    g_devices = radio.Install(nodes);
    MobilityHelper mobility;
    mobility.SetPositionAllocator(positions);
    mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    mobility.Install(nodes);
    g_sent.resize(nodes.GetN());
    for (uint32_t node = 0; node < nodes.GetN(); ++node)
    {
        auto device = DynamicCast<WifiNetDevice>(g_devices.Get(node));
        device->SetReceiveCallback(MakeCallback(&Receive));
        device->GetPhy()->TraceConnectWithoutContext("PhyTxBegin",
                                                     MakeBoundCallback(&CountTransmission, node));
    }
    Simulator::Schedule(Seconds(g_frames.at(0).time), &Send, 0);
    Simulator::Stop(Seconds(until));
    Simulator::Run();
    for (const auto& [pair, count] : g_received)
    {
        std::cout << "received " << pair.first << " " << pair.second << " " << count << "\n";
    }
    for (uint32_t node = 0; node < nodes.GetN(); ++node)
    {
        std::cout << "sent " << node << " " << g_sent[node] << "\n";
    }
    Simulator::Destroy();
    return 0;
}
