-- Wireshark dissector for the testbed's wire format (nodeapp/wire.py).
--
--   wireshark -X lua_script:capture/dissector/pubsub.lua sta1-wlan0.pcap
--   tshark -X lua_script:capture/dissector/pubsub.lua -r sta1-wlan0.pcap -Y 'pubsub.kind == 2'
--
-- or copy it to the personal plugins folder (Help, About, Folders). Every header field has a
-- display filter name, pubsub.<field>; pubsub.event is the event id "publisher/sequence".
-- A frame that a node refuses carries an expert note (pubsub.malformed) that says why.

local VERSION = 1
local NODE_PORT, CLIENT_PORT = 5550, 5551
local HEADER_LENGTH = 24
local MAX_BODY = 60000
local SEALED, SEAL_LENGTH = 0x08, 20
local BROADCAST = 0xFFFFFFFF
local GREEDY, PERIMETER = 1, 2
local GREEDY_LENGTH, PERIMETER_LENGTH = 17, 61
local WITH_SENDER, SENDER_LENGTH = 0x80, 24
local TREE, TREE_LENGTH = 3, 24
local ADDRESSEES, WORD_LENGTH = 4, 4
local CELLS, CELL_WALK = 5, 6
local CELLS_LENGTH, CELL_WALK_LENGTH = 20, 36

local KINDS = {
  [1] = "HELLO", [2] = "EVENT", [3] = "SUBSCRIPTION",
  [4] = "ROUTE_REQUEST", [5] = "ROUTE_REPLY", [6] = "ROUTE_ERROR",
  [7] = "ADVERTISEMENT", [8] = "SUBSCRIBERS", [9] = "ROUTE_REPLY_ACK",
  [20] = "JOIN_QUERY", [21] = "JOIN_REPLY", [22] = "LINK", [23] = "HEARTBEAT",
  [24] = "LEAVE", [25] = "PEER_FAILED", [26] = "RING", [27] = "SEARCH",
  [28] = "ANNOUNCE", [29] = "CUBE_EVENT",
  [40] = "SUBSCRIPTION_UPDATE", [41] = "SUBSCRIPTION_ACK",
  [45] = "INTERESTS",
  [50] = "DEMAND", [51] = "PRUNE", [52] = "CELL_STATE_REQUEST", [53] = "CELL_STATE",
  [54] = "DELIVERY", [55] = "RECEIVED", [56] = "REPORT",
  [57] = "REPORT_ACK", [58] = "PROBE", [59] = "HANDOVER",
  [60] = "PROPAGATED", [61] = "HANDED_OVER",
  [65] = "SUBSCRIBE", [66] = "UNSUBSCRIBE", [67] = "PUBLISH",
  [68] = "NOTIFY", [69] = "STATUS", [70] = "ACK",
  [71] = "ADVERTISE", [72] = "NAVIGATE",
}
local KIND = {}  -- the other way round
for kind, name in pairs(KINDS) do
  KIND[name] = kind
end
-- Offset and width, in bytes, of the header's fields.
local HEADER = {
  version = { 0, 1 }, kind = { 1, 1 }, flags = { 2, 1 }, ttl = { 3, 1 },
  hops = { 4, 1 }, route_length = { 5, 1 }, body_length = { 6, 2 },
  originator = { 8, 4 }, destination = { 12, 4 }, publisher = { 16, 4 }, sequence = { 20, 4 },
}
local FIELDS = {}  -- their names, in order
for name in pairs(HEADER) do
  FIELDS[#FIELDS + 1] = name
end
table.sort(FIELDS, function(one, other) return HEADER[one][1] < HEADER[other][1] end)
local MODES = {
  [GREEDY] = "greedy", [PERIMETER] = "perimeter", [WITH_SENDER] = "sender", [TREE] = "tree",
  [ADDRESSEES] = "addressees", [CELLS] = "cells", [CELL_WALK] = "cells, perimeter",
  [WITH_SENDER + GREEDY] = "greedy, with sender",
  [WITH_SENDER + PERIMETER] = "perimeter, with sender",
}
local DESTINATIONS = { [BROADCAST] = "broadcast", [0] = "any" }

local pubsub = Proto("pubsub", "Publish/Subscribe Testbed")
local f = {
  version = ProtoField.uint8("pubsub.version", "Version"),
  kind = ProtoField.uint8("pubsub.kind", "Kind", base.DEC, KINDS),
  flags = ProtoField.uint8("pubsub.flags", "Flags", base.HEX),
  replica = ProtoField.bool("pubsub.flags.replica", "Replica", 8, nil, 0x01),
  one_way = ProtoField.bool("pubsub.flags.one_way", "One way", 8, nil, 0x02),
  explore = ProtoField.bool("pubsub.flags.explore", "Explore", 8, nil, 0x04),
  sealed = ProtoField.bool("pubsub.flags.sealed", "Sealed", 8, nil, 0x08),
  multicast = ProtoField.bool("pubsub.flags.multicast", "Multicast", 8, nil, 0x10),
  flood = ProtoField.bool("pubsub.flags.flood", "Flood", 8, nil, 0x20),
  ttl = ProtoField.uint8("pubsub.ttl", "Time to live"),
  hops = ProtoField.uint8("pubsub.hops", "Hops"),
  route_length = ProtoField.uint8("pubsub.route_length", "Route length"),
  body_length = ProtoField.uint16("pubsub.body_length", "Body length"),
  originator = ProtoField.uint32("pubsub.originator", "Originator"),
  destination = ProtoField.uint32("pubsub.destination", "Destination"),
  publisher = ProtoField.uint32("pubsub.publisher", "Publisher"),
  sequence = ProtoField.uint32("pubsub.sequence", "Sequence number"),
  event = ProtoField.string("pubsub.event", "Event"),
  route = ProtoField.bytes("pubsub.route", "Route"),
  mode = ProtoField.uint8("pubsub.route.mode", "Mode", base.DEC, MODES),
  x = ProtoField.double("pubsub.route.x", "Destination x (m)"),
  y = ProtoField.double("pubsub.route.y", "Destination y (m)"),
  entered_x = ProtoField.double("pubsub.route.entered_x", "Entered perimeter mode at x (m)"),
  entered_y = ProtoField.double("pubsub.route.entered_y", "Entered perimeter mode at y (m)"),
  face_x = ProtoField.double("pubsub.route.face_x", "Entered face at x (m)"),
  face_y = ProtoField.double("pubsub.route.face_y", "Entered face at y (m)"),
  edge_from = ProtoField.uint32("pubsub.route.edge_from", "First edge from"),
  edge_to = ProtoField.uint32("pubsub.route.edge_to", "First edge to"),
  entry = ProtoField.uint32("pubsub.route.entry", "Entered perimeter mode at node"),
  addressee = ProtoField.uint32("pubsub.route.addressee", "Addressee"),
  key = ProtoField.uint8("pubsub.cells.key", "Key"),
  hops_left = ProtoField.uint16("pubsub.cells.left", "Hops left"),
  column = ProtoField.int32("pubsub.cells.column", "Target column"),
  row = ProtoField.int32("pubsub.cells.row", "Target row"),
  sender_column = ProtoField.int32("pubsub.cells.sender_column", "Sender's column"),
  sender_row = ProtoField.int32("pubsub.cells.sender_row", "Sender's row"),
  entry_column = ProtoField.int32("pubsub.cells.entry_column", "Entered perimeter mode at column"),
  entry_row = ProtoField.int32("pubsub.cells.entry_row", "Entered perimeter mode at row"),
  first_column = ProtoField.int32("pubsub.cells.first_column", "Second column of the face"),
  first_row = ProtoField.int32("pubsub.cells.first_row", "Second row of the face"),
  sender_x = ProtoField.double("pubsub.route.sender_x", "Sender x (m)"),
  sender_y = ProtoField.double("pubsub.route.sender_y", "Sender y (m)"),
  sender_vx = ProtoField.float("pubsub.route.sender_vx", "Sender velocity x (m/s)"),
  sender_vy = ProtoField.float("pubsub.route.sender_vy", "Sender velocity y (m/s)"),
  tree_flags = ProtoField.uint8("pubsub.tree.flags", "Flags", base.HEX),
  orphaned = ProtoField.bool("pubsub.tree.flags.orphaned", "Orphaned", 8, nil, 0x01),
  tree_cost = ProtoField.uint8("pubsub.tree.cost", "Hops from the root"),
  tree_children = ProtoField.uint8("pubsub.tree.children", "Children"),
  tree_root = ProtoField.uint32("pubsub.tree.root", "Root"),
  tree_parent = ProtoField.uint32("pubsub.tree.parent", "Parent"),
  tree_epoch = ProtoField.uint64("pubsub.tree.epoch", "Epoch"),
  tree_age = ProtoField.uint32("pubsub.tree.age", "Age of the epoch (ms)"),
  tree_child = ProtoField.uint32("pubsub.tree.child", "Child"),
  body = ProtoField.bytes("pubsub.body", "Body"),
  seal = ProtoField.bytes("pubsub.seal", "Seal"),
  request_flags = ProtoField.uint32("pubsub.aodv.flags", "Flags", base.HEX),
  gratuitous = ProtoField.bool("pubsub.aodv.flags.gratuitous", "Gratuitous reply", 32, nil, 0x01),
  destination_only =
    ProtoField.bool("pubsub.aodv.flags.destination_only", "Destination only", 32, nil, 0x02),
  unknown = ProtoField.bool("pubsub.aodv.flags.unknown", "Unknown sequence number", 32, nil, 0x04),
  reply_flags = ProtoField.uint32("pubsub.aodv.reply.flags", "Flags", base.HEX),
  acknowledge =
    ProtoField.bool("pubsub.aodv.reply.flags.acknowledge", "Acknowledge", 32, nil, 0x01),
  error_flags = ProtoField.uint32("pubsub.aodv.error.flags", "Flags", base.HEX),
  no_delete = ProtoField.bool("pubsub.aodv.error.flags.no_delete", "No delete", 32, nil, 0x01),
  request = ProtoField.uint32("pubsub.aodv.request", "Request"),
  target = ProtoField.uint32("pubsub.aodv.destination", "Route to"),
  target_sequence =
    ProtoField.uint32("pubsub.aodv.destination_sequence", "Destination sequence number"),
  originator_sequence =
    ProtoField.uint32("pubsub.aodv.originator_sequence", "Originator sequence number"),
  hop_count = ProtoField.uint32("pubsub.aodv.hop_count", "Hop count"),
  lifetime = ProtoField.uint32("pubsub.aodv.lifetime", "Lifetime (ms)"),
}
pubsub.fields = f
local malformed = ProtoExpert.new(
  "pubsub.malformed", "Malformed frame", expert.group.MALFORMED, expert.severity.ERROR)
pubsub.experts = { malformed }

local cbor = Dissector.get("cbor")

-- The numbers in the bodies of AODV's messages, by kind (nodeapp.routing.aodv_wire).
local AODV = {
  [KIND.HELLO] = { f.originator_sequence, f.lifetime },
  [KIND.ROUTE_REQUEST] =
    { f.request_flags, f.request, f.target_sequence, f.originator_sequence },
  [KIND.ROUTE_REPLY] =
    { f.reply_flags, f.target, f.target_sequence, f.hop_count, f.lifetime },
  [KIND.ROUTE_ERROR] = { f.error_flags, f.target, f.target_sequence },
}
-- The flags in their first number.
local AODV_FLAGS = {
  [KIND.ROUTE_REQUEST] = { f.gratuitous, f.destination_only, f.unknown },
  [KIND.ROUTE_REPLY] = { f.acknowledge },
  [KIND.ROUTE_ERROR] = { f.no_delete },
}
local WORD = 5  -- a CBOR head and four bytes

-- Return the bytes of a header field.
local function header(tvb, name)
  local offset, width = table.unpack(HEADER[name])
  return tvb(offset, width)
end

-- Add consecutive fields of `width` bytes from offset `at` on; return the offset after them.
local function add_fields(tree, tvb, at, width, fields)
  for _, field in ipairs(fields) do
    tree:add(field, tvb(at, width))
    at = at + width
  end
  return at
end

-- A node's place in the spanning tree (nodeapp.routing.tree_beacon).
local function dissect_tree(route, tree)
  local branch = tree:add(f.route, route())
  if route:len() < TREE_LENGTH or route:len() ~= TREE_LENGTH + 4 * route(3, 1):uint() then
    return
  end
  branch:add(f.mode, route(0, 1))
  branch:add(f.tree_flags, route(1, 1)):add(f.orphaned, route(1, 1))
  local at = add_fields(branch, route, 2, 1, { f.tree_cost, f.tree_children })
  at = add_fields(branch, route, at, 4, { f.tree_root, f.tree_parent })
  at = add_fields(branch, route, at, 8, { f.tree_epoch })
  at = add_fields(branch, route, at, 4, { f.tree_age })
  while at < route:len() do
    at = add_fields(branch, route, at, 4, { f.tree_child })
  end
end

-- Cell hash routing (nodeapp.routing.cell_wire).
local function dissect_cells(route, mode, tree)
  local branch = tree:add(f.route, route())
  if route:len() ~= (mode == CELLS and CELLS_LENGTH or CELL_WALK_LENGTH) then
    return
  end
  branch:add(f.mode, route(0, 1))
  branch:add(f.key, route(1, 1))
  local at = add_fields(branch, route, 2, 2, { f.hops_left })
  at = add_fields(branch, route, at, 4, { f.column, f.row, f.sender_column, f.sender_row })
  if mode == CELL_WALK then
    add_fields(branch, route, at, 4, { f.entry_column, f.entry_row, f.first_column, f.first_row })
  end
end

local function dissect_route(route, tree)
  if route(0, 1):uint() == TREE then
    dissect_tree(route, tree)
    return
  end
  local mode, length = route(0, 1):uint(), route:len()
  if mode == CELLS or mode == CELL_WALK then
    dissect_cells(route, mode, tree)
    return
  end
  local branch = tree:add(f.route, route())
  if mode == ADDRESSEES and length > 1 and length % WORD_LENGTH == 1 then
    branch:add(f.mode, route(0, 1))
    for at = 1, length - 1, WORD_LENGTH do
      branch:add(f.addressee, route(at, WORD_LENGTH))
    end
    return
  end
  local has_sender = mode >= WITH_SENDER
  if has_sender then
    mode, length = mode - WITH_SENDER, length - SENDER_LENGTH
  end
  if not ((mode == GREEDY and length == GREEDY_LENGTH)
      or (mode == PERIMETER and length == PERIMETER_LENGTH)
      or (mode == 0 and has_sender and length == 1)) then
    return
  end
  branch:add(f.mode, route(0, 1))
  if has_sender then
    local at = add_fields(branch, route, length, 8, { f.sender_x, f.sender_y })
    add_fields(branch, route, at, 4, { f.sender_vx, f.sender_vy })
  end
  if mode == 0 then
    return
  end
  local at = add_fields(branch, route, 1, 8, { f.x, f.y })
  if mode == PERIMETER then
    at = add_fields(branch, route, at, 8, { f.entered_x, f.entered_y, f.face_x, f.face_y })
    add_fields(branch, route, at, 4, { f.edge_from, f.edge_to, f.entry })
  end
end

-- An array of four-byte numbers; in a ROUTE_ERROR, with a longer head, flags and pairs of them.
local function dissect_aodv(kind, body, tree)
  local fields, flags = AODV[kind], AODV_FLAGS[kind] or {}
  local errors = kind == KIND.ROUTE_ERROR
  local at = errors and 3 or 1
  local words = (body:len() - at) / WORD
  if words < #fields or words % 1 ~= 0 then
    return
  end
  if (errors and words % 2 ~= 1) or (not errors and words ~= #fields) then
    return
  end
  for word = 0, words - 1 do
    local range = body(at + word * WORD + 1, 4)
    local field = fields[word + 1] or fields[2 + (word - 1) % 2]
    local item = tree:add(field, range)
    if word == 0 then
      for _, flag in ipairs(flags) do
        item:add(flag, range)
      end
    end
  end
end

-- What makes a node refuse the datagram, or nil (nodeapp.wire.decode).
local function refusal(tvb)
  if tvb:reported_len() < HEADER_LENGTH then
    return "shorter than the header"
  end
  if tvb:len() < HEADER_LENGTH then
    return nil  -- the capture has no more of it
  end
  local version, kind = header(tvb, "version"):uint(), header(tvb, "kind"):uint()
  if version ~= VERSION then
    return string.format("version %d is not %d", version, VERSION)
  end
  if not KINDS[kind] then
    return string.format("unknown kind %d", kind)
  end
  local body_length = header(tvb, "body_length"):uint()
  local length = HEADER_LENGTH + header(tvb, "route_length"):uint() + body_length
  if tvb:reported_len() ~= length then
    return string.format("%d bytes, but the header says %d", tvb:reported_len(), length)
  end
  if body_length > MAX_BODY then
    return string.format("body of %d bytes; at most %d are allowed", body_length, MAX_BODY)
  end
  return nil
end

function pubsub.dissector(tvb, pinfo, root)
  pinfo.cols.protocol = "PubSub"
  local tree = root:add(pubsub, tvb())
  local why = refusal(tvb)
  if why then
    tree:add_proto_expert_info(malformed, "Malformed frame: " .. why)
    pinfo.cols.info = "Malformed frame: " .. why
  end
  if tvb:len() < HEADER_LENGTH then
    return tvb:len()
  end

  local number = {}
  for _, name in ipairs(FIELDS) do
    local range = header(tvb, name)
    number[name] = range:uint()
    local item = tree:add(f[name], range)
    if name == "destination" and DESTINATIONS[number[name]] then
      item:append_text(" (" .. DESTINATIONS[number[name]] .. ")")
    end
    if name == "flags" then
      item:add(f.replica, range)
      item:add(f.one_way, range)
      item:add(f.explore, range)
      item:add(f.sealed, range)
      item:add(f.multicast, range)
      item:add(f.flood, range)
    end
  end
  local event = string.format("%d/%d", number.publisher, number.sequence)
  local has_event = number.publisher ~= 0 or number.sequence ~= 0
  if has_event then
    tree:add(f.event, tvb(HEADER.publisher[1], 8), event):set_generated()
  end
  if why then
    return tvb:len()
  end

  local summary = KINDS[number.kind]
  if has_event then
    summary = summary .. " " .. event
  end
  summary = string.format("%s from %d to %s hop %d ttl %d", summary, number.originator,
    DESTINATIONS[number.destination] or tostring(number.destination), number.hops, number.ttl)
  pinfo.cols.info = summary
  tree:append_text(", " .. summary)

  if tvb:len() < tvb:reported_len() then
    tree:append_text(", cut short by the capture")
    return tvb:len()
  end
  if number.route_length > 0 then
    dissect_route(tvb(HEADER_LENGTH, number.route_length):tvb(), tree)
  end
  if number.body_length > 0 then
    local at, length = HEADER_LENGTH + number.route_length, number.body_length
    if math.floor(number.flags / SEALED) % 2 == 1 and length >= SEAL_LENGTH then
      length = length - SEAL_LENGTH
      tree:add(f.seal, tvb(at + length, SEAL_LENGTH))
    end
    if length > 0 then
      local body = tvb(at, length)
      local branch = tree:add(f.body, body)
      if AODV[number.kind] then
        dissect_aodv(number.kind, body:tvb(), branch)
      end
      pcall(cbor.call, cbor, body:tvb(), pinfo, branch)  -- it need not be CBOR
    end
  end
  return tvb:len()
end

for _, port in ipairs({ NODE_PORT, CLIENT_PORT }) do
  DissectorTable.get("udp.port"):add(port, pubsub)
end
