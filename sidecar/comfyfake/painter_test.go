package comfyfake_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar/comfyfake"
)

func paintGraph(text, style, seed string) string {
	words, _ := json.Marshal(text) // a string
	return fmt.Sprintf(`{"1":{"class_type":"DemoSampler","inputs":{"text":%s,"seed":%s,"steps":5,"width":96,"height":64,"style":%q}},"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"p"}}}`, words, seed, style)
}

// painted runs the graph and returns the saved picture.
func (g *rig) painted(graph, file string) image.Image {
	g.t.Helper()
	g.submit("", "a", graph)
	synctest.Wait()
	pic, err := png.Decode(strings.NewReader(g.get("/view?filename=" + file).Body))
	if err != nil {
		g.t.Fatal(err)
	}
	return pic
}

// difference is the mean distance of two pictures' channels, 0..255.
func difference(a, b image.Image) float64 {
	sum, n := 0.0, 0
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			r, g, bl, _ := a.At(x, y).RGBA()
			r2, g2, bl2, _ := b.At(x*b.Bounds().Dx()/a.Bounds().Dx(), y*b.Bounds().Dy()/a.Bounds().Dy()).RGBA()
			for _, d := range []int{int(r) - int(r2), int(g) - int(g2), int(bl) - int(bl2)} {
				sum += math.Abs(float64(d)) / 257
				n++
			}
		}
	}
	return sum / float64(n)
}

func TestPainter(t *testing.T) {
	t.Run("same_words_and_seed_same_picture", func(t *testing.T) {
		var pics []image.Image
		for _, seed := range []string{"18446744073709551615", "18446744073709551615", "18446744073709551614"} {
			within(t, comfyfake.Options{}, func(g *rig) {
				pics = append(pics, g.painted(paintGraph("a \"quiet\" sea", "auto", seed), "p_00001_.png"))
			})
		}
		if d := difference(pics[0], pics[1]); d != 0 {
			t.Errorf("the same call differs by %.2f", d)
		}
		if d := difference(pics[0], pics[2]); d < 2 {
			t.Errorf("another seed differs by %.2f only", d)
		}
	})
	t.Run("every_style_paints_something_rich", func(t *testing.T) {
		for _, style := range []string{"auto", "dunes", "ridges", "sea", "planet", "silk"} {
			within(t, comfyfake.Options{}, func(g *rig) {
				pic := g.painted(paintGraph("", style, "3"), "p_00001_.png")
				colours := map[[3]uint32]bool{}
				for y := range 64 {
					for x := range 96 {
						r, gr, b, _ := pic.At(x, y).RGBA()
						colours[[3]uint32{r >> 11, gr >> 11, b >> 11}] = true
					}
				}
				if len(colours) < 60 {
					g.t.Errorf("%s has %d colours", style, len(colours))
				}
			})
		}
	})
	t.Run("previews_come_nearer_step_by_step", func(t *testing.T) {
		within(t, comfyfake.Options{Previews: true, StepDelay: time.Second}, func(g *rig) {
			c := g.dial("/ws?clientId=a")
			defer c.CloseNow()
			g.submit("", "a", paintGraph("misty mountains at dawn", "auto", "1"))
			var shown []image.Image
			for _, e := range until(g.t, c, "executing") {
				if e.Type != "frame 1" {
					continue
				}
				pic, err := jpeg.Decode(bytes.NewReader(e.Raw[8:]))
				if err != nil {
					g.t.Fatal(err)
				}
				shown = append(shown, pic)
			}
			if len(shown) != 5 {
				g.t.Fatalf("%d previews", len(shown))
			}
			last := math.Inf(1)
			for i, pic := range shown[:4] {
				d := difference(shown[4], pic)
				if d >= last {
					g.t.Errorf("preview %d is no nearer to the last: %.1f after %.1f", i, d, last)
				}
				last = d
			}
		})
	})
}

func TestSavers(t *testing.T) {
	t.Run("audio_is_a_WAV_and_its_name_follows_the_generation", func(t *testing.T) {
		for gen, name := range map[comfyfake.Generation]string{comfyfake.V0_3_64: "a_00001_.wav", comfyfake.V0_33_0: "a_00001.wav"} {
			within(t, comfyfake.Options{Generation: gen}, func(g *rig) {
				g.submit(idA, "a", `{"1":{"class_type":"DemoTone","inputs":{"frequency":440,"seconds":0.5}},"2":{"class_type":"SaveAudioWAV","inputs":{"audio":["1",0],"filename_prefix":"audio/a"}}}`)
				synctest.Wait()
				a := g.get("/view?subfolder=audio&filename=" + name)
				if !strings.HasPrefix(a.Body, "RIFF") || len(a.Body) != 44+44100 || a.Header.Get("Content-Type") != "audio/wav" {
					g.t.Errorf("%s: %d %d bytes", name, a.Status, len(a.Body))
				}
				if h := g.get("/history/" + idA); !strings.Contains(h.Body, `{"audio": [{"filename": "`+name+`", "subfolder": "audio", "type": "output"}]}`) {
					g.t.Errorf("history: %s", h.Body)
				}
			})
		}
	})
	t.Run("animation_is_one_image_with_a_flag", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.submit(idA, "a", `{"1":{"class_type":"EmptyImage","inputs":{"width":8,"height":8,"batch_size":3,"color":9}},"2":{"class_type":"SaveAnimatedGIF","inputs":{"images":["1",0],"filename_prefix":"g","fps":4}}}`)
			synctest.Wait()
			if h := g.get("/history/" + idA); !strings.Contains(h.Body, `{"images": [{"filename": "g_00001_.gif", "subfolder": "", "type": "output"}], "animated": [true]}`) {
				g.t.Errorf("history: %s", h.Body)
			}
		})
	})
	t.Run("a_prefix_may_not_leave_the_folder", func(t *testing.T) {
		within(t, comfyfake.Options{}, func(g *rig) {
			g.submit(idA, "a", saveGraph("../out"))
			synctest.Wait()
			if h := g.get("/history/" + idA); !strings.Contains(h.Body, `"execution_error"`) {
				g.t.Errorf("history: %s", h.Body)
			}
		})
	})
}
