// Unicast UDP datagrams of a list over ad hoc Wi-Fi stations that move and route with ns-3's AODV.
//
// Reads an ns-2 movement trace from --trace and "time source destination bytes" of every datagram,
// in order of time, from --traffic (bytes: UDP payload).  Prints "delivered INDEX HOPS DELAY" for
// each that arrives, then a summary "name value" a line.
//
// Options turn mechanisms of ns-3's AODV on and off. For two of them it has no attribute, so this is
// compiled without access control and reaches into its objects (peer.py).

#include "radio.h"

#include "ns3/aodv-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/traffic-control-module.h"

#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <vector>

using namespace ns3;

namespace
{

struct Datagram
{
    double time;
    int source, destination;
    uint32_t bytes;
};

struct Delivered
{
    uint32_t index;
    int hops;
    double delay;
};

constexpr uint16_t PORT = 5000;
constexpr uint8_t TTL = 64;

std::vector<Datagram> g_datagrams;
std::vector<Delivered> g_delivered;
std::vector<Ptr<Socket>> g_sockets;
Ipv4InterfaceContainer g_interfaces;
uint64_t g_unicasts = 0;
uint64_t g_broadcasts = 0;
uint64_t g_acks = 0;
uint64_t g_arp = 0;
std::map<int, uint64_t> g_messages; //!< transmissions by AODV's message type; 0: datagrams

void
Send(std::size_t index)
{
    const Datagram& datagram = g_datagrams[index];
    uint32_t number = index;
    auto packet = Create<Packet>(reinterpret_cast<const uint8_t*>(&number), sizeof number);
    packet->AddPaddingAtEnd(datagram.bytes - sizeof number);
    g_sockets[datagram.source]->SendTo(
        packet,
        0,
        InetSocketAddress(g_interfaces.GetAddress(datagram.destination), PORT));
    if (++index < g_datagrams.size())
    {
        Simulator::Schedule(Seconds(g_datagrams[index].time) - Simulator::Now(), &Send, index);
    }
}

void
Receive(Ptr<Socket> socket)
{
    while (auto packet = socket->Recv())
    {
        uint32_t index;
        packet->CopyData(reinterpret_cast<uint8_t*>(&index), sizeof index);
        SocketIpTtlTag ttl;
        packet->PeekPacketTag(ttl);
        g_delivered.push_back({index,
                               TTL - ttl.GetTtl() + 1,
                               Simulator::Now().GetSeconds() - g_datagrams[index].time});
    }
}

void
CountTransmission(Ptr<const Packet> packet, double)
{
    WifiMacHeader header;
    auto copy = packet->Copy();
    copy->RemoveHeader(header);
    if (!header.IsData())
    {
        g_acks += 1;
        return;
    }
    (header.GetAddr1().IsGroup() ? g_broadcasts : g_unicasts) += 1;
    LlcSnapHeader llc;
    copy->RemoveHeader(llc);
    if (llc.GetType() == ArpL3Protocol::PROT_NUMBER)
    {
        g_arp += 1;
        return;
    }
    Ipv4Header ip;
    UdpHeader udp;
    copy->RemoveHeader(ip);
    copy->RemoveHeader(udp);
    uint8_t type = 0;
    if (udp.GetDestinationPort() == aodv::RoutingProtocol::AODV_PORT)
    {
        copy->CopyData(&type, 1);
    }
    g_messages[type] += 1;
}

Ptr<aodv::RoutingProtocol>
RouterOf(Ptr<Node> node)
{
    auto router = DynamicCast<aodv::RoutingProtocol>(
        node->GetObject<Ipv4L3Protocol>()->GetRoutingProtocol());
    NS_ABORT_MSG_IF(!router, "no AODV at node " << node->GetId());
    return router;
}

// Do not tell AODV of unicasts that were not acknowledged, as over a UDP socket.
void
HideTransmitErrors(const NodeContainer& nodes)
{
    for (uint32_t node = 0; node < nodes.GetN(); ++node)
    {
        auto mac = DynamicCast<WifiNetDevice>(nodes.Get(node)->GetDevice(0))->GetMac();
        auto router = PeekPointer(RouterOf(nodes.Get(node)));
        auto callback = MakeCallback(&aodv::RoutingProtocol::NotifyTxError, router);
        NS_ABORT_MSG_IF(!mac->TraceDisconnectWithoutContext("DroppedMpdu", callback),
                        "no trace of dropped frames");
    }
}

constexpr int LOOK_MS = 2;
constexpr double REVERSE = 5.4; //!< MinimalLifetime of a reverse route of two or three hops, s
bool g_raise = false;  //!< raise the sequence numbers of routes that become invalid (6.11)
bool g_revive = false; //!< make them valid again when a request has brought a newer number (6.5)
std::map<std::pair<uint32_t, uint32_t>, uint32_t> g_invalid; //!< by node and destination: number

// Do to each route that has become invalid what ns-3 does not, a little late.
void
LookAtRoutes(NodeContainer nodes)
{
    for (uint32_t node = 0; node < nodes.GetN(); ++node)
    {
        for (auto& [destination, entry] :
             RouterOf(nodes.Get(node))->m_routingTable.m_ipv4AddressEntry)
        {
            const std::pair<uint32_t, uint32_t> key{node, destination.Get()};
            if (entry.GetFlag() == aodv::VALID)
            {
                g_invalid.erase(key);
                continue;
            }
            auto found = g_invalid.find(key);
            if (found == g_invalid.end())
            {
                if (g_raise && entry.GetValidSeqNo())
                {
                    entry.SetSeqNo(entry.GetSeqNo() + 1);
                }
                g_invalid[key] = entry.GetSeqNo();
            }
            else if (g_revive && entry.GetFlag() == aodv::INVALID && entry.GetValidSeqNo() &&
                     static_cast<int32_t>(entry.GetSeqNo() - found->second) > 0)
            {
                entry.SetFlag(aodv::VALID);
                entry.SetLifeTime(Seconds(REVERSE));
            }
        }
    }
    Simulator::Schedule(MilliSeconds(LOOK_MS), &LookAtRoutes, nodes);
}

void
KnowAll(const NodeContainer& nodes)
{
    for (uint32_t node = 0; node < nodes.GetN(); ++node)
    {
        auto cache = nodes.Get(node)->GetObject<Ipv4L3Protocol>()->GetInterface(1)->GetArpCache();
        for (uint32_t other = 0; other < nodes.GetN(); ++other)
        {
            auto entry = cache->Add(g_interfaces.GetAddress(other));
            entry->SetMacAddress(nodes.Get(other)->GetDevice(0)->GetAddress());
            entry->MarkPermanent();
        }
    }
}

} // namespace

int
main(int argc, char* argv[])
{
    Radio radio;
    std::string trace;
    std::string traffic;
    uint32_t count = 0;
    double until = 0;
    bool frames = true;
    bool arp = true;
    bool reply = true;
    bool errors = true;
    bool gratuitous = true;
    double lifetime = 11.2;
    bool hello = true;
    int hellos = 2;
    CommandLine cmd(__FILE__);
    radio.AddTo(cmd);
    cmd.AddValue("trace", "ns-2 movement trace", trace);
    cmd.AddValue("traffic", "file of datagrams", traffic);
    cmd.AddValue("nodes", "how many nodes", count);
    cmd.AddValue("until", "seconds", until);
    cmd.AddValue("frames", "count the frames on the air", frames);
    cmd.AddValue("arp", "resolve addresses; else all nodes know all", arp);
    cmd.AddValue("intermediate", "let intermediate nodes answer requests", reply);
    cmd.AddValue("errors", "tell AODV of unicasts that were not acknowledged", errors);
    cmd.AddValue("gratuitous", "tell destinations of replies for them", gratuitous);
    cmd.AddValue("raise", "raise the sequence numbers of routes that become invalid", g_raise);
    cmd.AddValue("revive", "let requests make invalid routes valid again", g_revive);
    cmd.AddValue("lifetime", "MY_ROUTE_TIMEOUT, s", lifetime);
    cmd.AddValue("hello", "say hello", hello);
    cmd.AddValue("hellos", "ALLOWED_HELLO_LOSS", hellos);
    cmd.Parse(argc, argv);

    std::ifstream list(traffic);
    for (Datagram d; list >> d.time >> d.source >> d.destination >> d.bytes;)
    {
        g_datagrams.push_back(d);
    }
    NodeContainer nodes;
    nodes.Create(count);
    Ns2MobilityHelper(trace).Install();
    auto devices = radio.Install(nodes);
    AodvHelper aodv;
    aodv.Set("DestinationOnly", BooleanValue(!reply));
    aodv.Set("GratuitousReply", BooleanValue(gratuitous));
    aodv.Set("MyRouteTimeout", TimeValue(Seconds(lifetime)));
    aodv.Set("EnableHello", BooleanValue(hello));
    aodv.Set("AllowedHelloLoss", UintegerValue(hellos));
    InternetStackHelper internet;
    internet.SetRoutingHelper(aodv);
    internet.SetIpv6StackInstall(false);
    internet.Install(nodes);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.0.0");
    g_interfaces = addresses.Assign(devices);
    TrafficControlHelper().Uninstall(devices); // one drop-tail queue a station: the MAC's
    if (!arp)
    {
        KnowAll(nodes);
    }
    for (uint32_t node = 0; node < count; ++node)
    {
        auto socket = Socket::CreateSocket(nodes.Get(node), UdpSocketFactory::GetTypeId());
        socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        socket->SetIpTtl(TTL);
        socket->SetIpRecvTtl(true);
        socket->SetRecvCallback(MakeCallback(&Receive));
        g_sockets.push_back(socket);
        if (frames)
        {
            DynamicCast<WifiNetDevice>(devices.Get(node))
                ->GetPhy()
                ->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&CountTransmission));
        }
    }
    if (!errors)
    {
        // The interfaces are up, and AODV has connected to the trace, at time 0.
        Simulator::Schedule(MilliSeconds(1), &HideTransmitErrors, nodes);
    }
    if (g_raise || g_revive)
    {
        Simulator::Schedule(MilliSeconds(LOOK_MS), &LookAtRoutes, nodes);
    }
    Simulator::Schedule(Seconds(g_datagrams.at(0).time), &Send, 0);
    Simulator::Stop(Seconds(until));
    const std::clock_t began = std::clock();
    Simulator::Run();
    const double cpu = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
    for (const auto& one : g_delivered)
    {
        std::cout << "delivered " << one.index << " " << one.hops << " " << one.delay << "\n";
    }
    const char* names[] = {"data", "rreq", "rrep", "rerr"};
    for (int type = 0; type < 4; ++type)
    {
        std::cout << names[type] << " " << g_messages[type] << "\n";
    }
    std::cout << "unicasts " << g_unicasts << "\nbroadcasts " << g_broadcasts << "\nacks "
              << g_acks << "\narp " << g_arp << "\ncpu " << cpu << "\nevents "
              << Simulator::GetEventCount() << "\n";
    Simulator::Destroy();
    return 0;
}
