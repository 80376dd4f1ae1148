"""Words that fill the places of templates; the forms of a word go together."""


def listed(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


def forms(text: str) -> tuple[tuple[str, ...], ...]:
    """Words with a stroke between the forms of each."""
    return tuple(tuple(word.split("/")) for word in text.split(", "))


PEOPLE = listed(
    "girl, pilot, baker, farmer, sailor, tailor, painter, gardener, singer, butcher, cook, student"
)
OTHERS = listed(
    "boy, doctor, dentist, lawyer, plumber, driver, waiter, banker, potter, soldier, porter, nurse"
)
TRIOS = forms(
    "Ann/Bob/Clara, David/Emma/Frank, Grace/Henry/Irene, James/Kate/Leo, Maria/Noah/Olga, "
    "Peter/Rosa/Simon, Tina/Victor/Wendy, Alice/Bruno/Cora, Diana/Edgar/Fiona, George/Hanna/Ivan, "
    "Julia/Karl/Linda, Mark/Nina/Oscar"
)
NAMES, MORE_NAMES, YET_MORE = (tuple(names) for names in zip(*TRIOS, strict=True))
THINGS = listed(
    "laptop, camera, bicycle, guitar, watch, coat, umbrella, suitcase, lamp, mirror, ring, map"
)
TRADES = forms(
    "bought/buying/sold/selling, found/finding/lost/losing, stole/stealing/returned/returning, "
    "borrowed/borrowing/returned/returning, received/receiving/donated/donating"
)
ROOMS = listed(
    "library, kitchen, museum, theatre, garage, cellar, church, station, shop, castle, tunnel, barn"
)
VISITS = forms(
    "entered/entering/left/leaving, went into/going into/went out of/going out of, "
    "walked into/walking into/walked out of/walking out of"
)
SITES = listed("kitchen, bedroom, office, cellar, school, hotel, factory, church")
STATES = tuple(
    (thing, *verbs)
    for verbs, things in {
        ("opened", "opening", "closed", "closing", "open", "closed"): "window, door, drawer",
        ("locked", "locking", "unlocked", "unlocking", "locked", "unlocked"): "gate, safe, shed",
        ("filled", "filling", "emptied", "emptying", "full", "empty"): "bucket, bathtub, bin",
        ("repaired", "repairing", "broke", "breaking", "intact", "broken"): "clock, heater, bell",
    }.items()
    for thing in listed(things)
)
BEINGS = forms(
    "poodle/dog, kitten/cat, pony/horse, violinist/musician, surgeon/doctor, novelist/writer, "
    "toddler/child, piglet/pig, duckling/duck, calf/cow"
)
CROWDS = listed(
    "dogs, cats, horses, musicians, doctors, writers, children, pigs, ducks, cows, tourists, pupils"
)
ACTS = listed("slept, ate, waited, rested, drank, played, hid, swam, danced, sat, wept, ran")
MANNERS = listed(
    "in the morning, on Monday, after the storm, before noon, in silence, for an hour, in the sun, "
    "near the river"
)
TRAITS = listed("young, small, big, tired, hungry, nervous, clever, quiet")
GOODS = forms(
    "rose/flower, novel/book, sedan/car, poodle/dog, kitten/cat, hammer/tool, beret/hat, "
    "sandal/shoe, dagger/knife, goblet/cup, sparrow/bird, rug/carpet"
)
DEALS = forms(
    "bought/did not buy, left with/left without, found/did not find, came with/came without, "
    "saw/never saw, owns/does not own, travelled with/travelled without, sold/did not sell, "
    "drew/never drew, appeared with/appeared without"
)
LOOKS = listed("new, red, small, white, big, cheap, beautiful, black")
DOINGS = listed("sang, read, ate, slept")
OTHER_DOINGS = listed("danced, drew, wept, prayed")
YET_OTHERS = listed("wrote, rested, sewed, shouted")
SPOTS = listed(
    "in the park, at the station, in the library, on the beach, on the train, in the garden, "
    "at the market, on the bridge"
)
DEEDS = forms(
    "praised/praise, helped/help, called/call, visited/visit, followed/follow, invited/invite, "
    "thanked/thank, blamed/blame, warned/warn, hired/hire, pushed/push, admired/admire"
)
DEALINGS = forms(
    "taught/teach/learnt from/learn from, lent money to/lend money to/borrowed money from/borrow "
    "money from, sold books to/sell books to/bought books from/buy books from, "
    "sent letters to/send letters to/got letters from/get letters from, "
    "gave advice to/give advice to/took advice from/take advice from, "
    "employed/employ/worked for/work for, chased/chase/fled from/flee from"
)
DEGREES = forms(
    "older/younger, taller/shorter, heavier/lighter, richer/poorer, faster/slower, "
    "stronger/weaker, louder/quieter, happier/sadder"
)
ORDERS = forms(
    "is older than/is younger than, is taller than/is shorter than, arrived before/arrived after, "
    "ran faster than/ran slower than, lives north of/lives south of, sat in front of/sat behind, "
    "is stronger than/is weaker than, left earlier than/left later than"
)
TIES = forms(
    "a cousin/of, a neighbour/of, a friend/of, a rival/of, an enemy/of, an ally/of, a partner/of, "
    "acquainted/with"
)
FRUITS = listed(
    "apples, pears, books, boxes, chairs, cups, flowers, hats, bottles, birds, horses, stamps"
)
TAKINGS = listed("bought, sold, found, saw, counted, drew, lost, owned")
COUNTS = forms(
    "two/three/four, three/four/five, four/five/six, five/six/seven, six/seven/eight, "
    "seven/eight/nine, eight/nine/ten"
)
DUTIES = forms(
    "locked the gate/lock the gate, paid the bill/pay the bill, fed the cat/feed the cat, "
    "watered the roses/water the roses, signed the letter/sign the letter, "
    "washed the dishes/wash the dishes, posted the parcel/post the parcel, "
    "cleaned the kitchen/clean the kitchen, switched off the lamp/switch off the lamp, "
    "finished the book/finish the book"
)
