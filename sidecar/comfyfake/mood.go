package comfyfake

import (
	"hash/fnv"
	"slices"
	"strings"
)

// mood is a palette: sky from top to horizon, light, land from far to near,
// and what the light does not reach.
type mood struct {
	name              string
	top, mid, horizon tint
	light             tint
	far, near         tint
	lit, shade        tint
	accent            tint
	stars             bool
}

func moods() []mood {
	return []mood{
		{name: "dawn", top: tint{.56, .085, 262}, mid: tint{.76, .075, 320}, horizon: tint{.91, .085, 62}, light: tint{.97, .06, 85}, far: tint{.74, .06, 330}, near: tint{.27, .06, 285}, lit: tint{.83, .095, 62}, shade: tint{.40, .075, 300}, accent: tint{.72, .13, 30}},
		{name: "sunset", top: tint{.34, .10, 285}, mid: tint{.58, .15, 12}, horizon: tint{.84, .15, 66}, light: tint{.96, .10, 85}, far: tint{.60, .12, 20}, near: tint{.19, .06, 300}, lit: tint{.78, .14, 56}, shade: tint{.32, .10, 330}, accent: tint{.66, .18, 32}},
		{name: "noon", top: tint{.55, .12, 252}, mid: tint{.75, .08, 238}, horizon: tint{.93, .03, 205}, light: tint{.99, .02, 95}, far: tint{.74, .05, 230}, near: tint{.33, .06, 195}, lit: tint{.87, .07, 82}, shade: tint{.52, .06, 50}, accent: tint{.70, .10, 190}},
		{name: "night", top: tint{.15, .05, 275}, mid: tint{.27, .08, 268}, horizon: tint{.50, .085, 248}, light: tint{.94, .025, 100}, far: tint{.38, .07, 258}, near: tint{.11, .03, 270}, lit: tint{.58, .06, 250}, shade: tint{.19, .05, 275}, accent: tint{.72, .10, 210}, stars: true},
		{name: "rose", top: tint{.62, .07, 295}, mid: tint{.80, .075, 345}, horizon: tint{.94, .045, 45}, light: tint{.98, .03, 70}, far: tint{.78, .06, 350}, near: tint{.34, .085, 335}, lit: tint{.86, .07, 20}, shade: tint{.48, .08, 330}, accent: tint{.70, .13, 5}},
		{name: "lagoon", top: tint{.27, .065, 242}, mid: tint{.50, .095, 212}, horizon: tint{.86, .085, 168}, light: tint{.97, .05, 130}, far: tint{.56, .08, 200}, near: tint{.18, .045, 232}, lit: tint{.80, .09, 165}, shade: tint{.34, .07, 225}, accent: tint{.80, .13, 160}, stars: true},
		{name: "ember", top: tint{.21, .055, 10}, mid: tint{.45, .14, 27}, horizon: tint{.80, .16, 64}, light: tint{.95, .11, 82}, far: tint{.48, .13, 32}, near: tint{.15, .04, 15}, lit: tint{.70, .15, 48}, shade: tint{.25, .08, 20}, accent: tint{.68, .19, 42}},
		{name: "sage", top: tint{.72, .045, 205}, mid: tint{.85, .035, 165}, horizon: tint{.96, .035, 100}, light: tint{.99, .03, 100}, far: tint{.80, .035, 165}, near: tint{.30, .055, 165}, lit: tint{.87, .06, 110}, shade: tint{.50, .06, 160}, accent: tint{.72, .09, 140}},
	}
}

// hints tie words to moods and scenes; the first word of the prompt that is
// listed decides.
var moodHints = map[string]string{
	"dawn": "dawn", "morning": "dawn", "sunrise": "dawn", "spring": "rose", "sunset": "sunset", "dusk": "sunset", "evening": "sunset", "golden": "sunset", "warm": "sunset",
	"noon": "noon", "day": "noon", "blue": "noon", "summer": "noon", "sky": "noon", "ice": "noon", "snow": "noon", "winter": "noon",
	"night": "night", "moon": "night", "moonlight": "night", "midnight": "night", "dark": "night", "stars": "night", "space": "night",
	"pink": "rose", "rose": "rose", "blossom": "rose", "love": "rose", "violet": "rose", "aurora": "lagoon", "teal": "lagoon", "emerald": "lagoon", "lagoon": "lagoon", "turquoise": "lagoon",
	"fire": "ember", "lava": "ember", "mars": "ember", "red": "ember", "autumn": "ember", "copper": "ember", "green": "sage", "forest": "sage", "calm": "sage", "jade": "sage",
}

var sceneHints = map[string]string{
	"desert": "dunes", "dune": "dunes", "dunes": "dunes", "sand": "dunes", "mars": "dunes", "sahara": "dunes",
	"mountain": "ridges", "mountains": "ridges", "forest": "ridges", "valley": "ridges", "hills": "ridges", "alps": "ridges", "mist": "ridges", "misty": "ridges", "fog": "ridges", "ridge": "ridges", "ridges": "ridges", "trees": "ridges",
	"sea": "sea", "ocean": "sea", "waves": "sea", "beach": "sea", "water": "sea", "lake": "sea", "island": "sea", "boat": "sea", "coast": "sea",
	"planet": "planet", "space": "planet", "galaxy": "planet", "stars": "planet", "cosmos": "planet", "saturn": "planet", "nebula": "planet", "moon": "planet",
	"silk": "silk", "fabric": "silk", "abstract": "silk", "flow": "silk", "folds": "silk", "ribbon": "silk", "satin": "silk", "liquid": "silk",
}

func styles() []string { return []string{"auto", "dunes", "ridges", "sea", "planet", "silk"} }

// brief is what the painter makes of the words and the seed.
type brief struct {
	scene string
	mood  mood
	seed  uint64
}

func readBrief(words, style string, seed uint64) brief {
	h := fnv.New64a()
	h.Write([]byte(strings.ToLower(strings.Join(strings.Fields(words), " ")))) // a hash never fails
	b := brief{scene: style, seed: h.Sum64() ^ seed*0x9e3779b97f4a7c15}
	pick := noise{b.seed}
	table := strings.FieldsFunc(strings.ToLower(words), func(r rune) bool { return r < 'a' || r > 'z' })
	if !slices.Contains(styles()[1:], style) {
		b.scene = firstHint(table, sceneHints)
	}
	if b.scene == "" {
		b.scene = styles()[1+int(pick.hash(1, 1)%5)]
	}
	all := moods()
	b.mood = all[pick.hash(2, 2)%uint64(len(all))]
	if name := firstHint(table, moodHints); name != "" {
		b.mood = all[slices.IndexFunc(all, func(m mood) bool { return m.name == name })]
	}
	b.mood = b.mood.turned(24*pick.unit(3, 3)-12, 0.92+0.2*pick.unit(4, 4))
	return b
}

func firstHint(words []string, hints map[string]string) string {
	for _, w := range words {
		if hint := hints[w]; hint != "" {
			return hint
		}
	}
	return ""
}

// turned shifts all hues together, so that the harmony stays.
func (m mood) turned(degrees, chroma float64) mood {
	for _, t := range []*tint{&m.top, &m.mid, &m.horizon, &m.light, &m.far, &m.near, &m.lit, &m.shade, &m.accent} {
		t.h += degrees
		t.c *= chroma
	}
	return m
}
