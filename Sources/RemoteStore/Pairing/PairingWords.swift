/// Words that people tell apart when they read them to each other; one for each byte.
enum PairingWords {
  static let all = text.split(whereSeparator: \.isWhitespace).map(String.init)

  private static let text = """
    acorn actor album alley amber ankle apple april arrow aspen atlas autumn badge baker balloon
    bamboo banana barrel basket beach beaver bell berry bicycle birch bishop blanket blossom boat
    bottle branch bread bridge brick bronze brush bucket butter button cabin cactus camel camera
    candle canoe canyon carbon carpet castle cedar cello chalk cheese cherry chess chimney cinema
    circle citrus clay cliff clock cloud clover coast cobalt coconut coffee comet copper coral
    cotton cradle crane crayon cricket crystal cup curtain daisy dancer desert diamond dinner
    doctor dolphin donkey dragon drum eagle earth easel echo eclipse elbow elephant ember engine
    envelope evening fabric falcon farmer feather fern ferry fiddle field finger flame flute
    forest fossil fountain fox frost galaxy garden garlic gate giant ginger glacier glove goat
    gold grape gravel guitar hammer harbor harp hazel hedge helmet heron honey horizon hotel
    hunter iceberg igloo indigo insect iron island ivory jacket jaguar jasmine jelly jewel jungle
    kettle kitchen kite koala ladder lagoon lake lantern laurel lemon leopard letter library
    lilac linen lion lizard lobster lotus magnet mango maple marble market meadow melon metal
    mirror monkey moon morning mosaic moss motor mountain museum mustard napkin needle nest
    nickel night north nutmeg oak oasis ocean olive onion opera orange orbit orchid otter owl
    oyster paddle painter palace panda paper parrot pasture peach peanut pearl pebble pencil
    pepper piano pigeon pillow pine pirate planet plaza plum pocket poet polar pony prairie
    pumpkin quarry quartz rabbit radio railway rain raven ribbon river robin rocket rose ruby saddle
    sailor salmon sand sapphire scarf school
    """
}
