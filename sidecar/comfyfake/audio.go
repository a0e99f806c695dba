package comfyfake

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
)

// sound is the value of an AUDIO slot: one channel of samples in -1..1.
type sound struct {
	rate    int
	samples []float64
}

func audioClasses() []*class {
	return []*class{
		{name: "DemoTone", display: "Demo Chime", about: "Plays a soft chord.", category: "demo", module: "comfyfake",
			required: []input{{name: "frequency", kind: "FLOAT", options: obj("default", 440.0, "min", 20.0, "max", 8000.0, "step", 1.0)},
				{name: "seconds", kind: "FLOAT", options: obj("default", 1.0, "min", 0.1, "max", 30.0, "step", 0.1)}},
			outputs: []string{"AUDIO"}, outputNames: []string{"AUDIO"}, run: runTone},
		{name: "LoadAudio", display: "Load Audio", category: "audio", module: "comfy_extras.nodes_audio",
			required: []input{{name: "audio", choices: audioFiles, options: obj("audio_upload", true)}},
			outputs:  []string{"AUDIO"}, outputNames: []string{"AUDIO"}, own: []string{"audio"},
			validate: checkAudioFile, stamp: stampInputFile, run: runLoadAudio},
		{name: "SaveAudioWAV", display: "Save Audio (WAV)", category: "audio", module: "comfyfake",
			required: []input{{name: "audio", kind: "AUDIO"}, {name: "filename_prefix", kind: "STRING", options: obj("default", "audio/ComfyUI")}},
			hidden:   hiddenMeta(), outputNode: true, run: runSaveWAV},
		{name: "PreviewAudio", display: "Preview Audio", category: "audio", module: "comfy_extras.nodes_audio",
			required: []input{{name: "audio", kind: "AUDIO"}}, hidden: hiddenMeta(), outputNode: true, run: runPreviewAudio},
	}
}

// runTone plays a major chord that fades in and out without a click.
func runTone(c *call) (result, error) {
	const rate = 44100
	n := int(c.number("seconds") * rate)
	out := sound{rate: rate, samples: make([]float64, n)}
	for i := range out.samples {
		t := float64(i) / rate
		fade := math.Min(1, math.Min(t/0.02, (c.number("seconds")-t)/0.2)) * math.Exp(-1.5*t)
		for k, ratio := range []float64{1, 1.25, 1.5, 2} {
			out.samples[i] += 0.2 * fade / float64(k+1) * math.Sin(2*math.Pi*c.number("frequency")*ratio*t)
		}
	}
	return one(out), nil
}

func audioFiles(s *Server) []string {
	entries, err := os.ReadDir(s.files.dir("input"))
	names := []string{}
	if err != nil {
		return names
	}
	for _, e := range entries {
		switch mediaType(e.Name()) {
		case "audio/wav", "audio/flac", "audio/mpeg", "audio/ogg", "video/mp4", "video/webm":
			names = append(names, e.Name())
		}
	}
	return names
}

func checkAudioFile(s *Server, _ string, v any) string {
	if checkInputFile(s, "", v) != "" {
		return "Invalid audio file: " + str(v)
	}
	return ""
}

// wavHead is the length of the header that encodeWAV writes.
const wavHead = 44

// runLoadAudio reads the plain WAV that this package writes; for any other
// file a short chime stands in.
func runLoadAudio(c *call) (result, error) {
	data, err := os.ReadFile(inputPath(c.r.p.s, c.text("audio")))
	if err != nil {
		return result{}, fmt.Errorf("load audio: %w", err)
	}
	if len(data) < wavHead || string(data[:4]) != "RIFF" || string(data[36:40]) != "data" {
		return one(sound{rate: 8000, samples: make([]float64, 4000)}), nil
	}
	out := sound{rate: int(binary.LittleEndian.Uint32(data[24:]))}
	for i := wavHead; i+1 < len(data); i += 2 {
		out.samples = append(out.samples, float64(int16(binary.LittleEndian.Uint16(data[i:])))/math.MaxInt16)
	}
	return one(out), nil
}

func runSaveWAV(c *call) (result, error) { return c.saveSound("output", c.text("filename_prefix")) }

func runPreviewAudio(c *call) (result, error) { return c.saveSound("temp", c.r.p.temp) }

// saveSound writes 16-bit mono; the newer generation has no underscore behind
// the number.
func (c *call) saveSound(kind, prefix string) (result, error) {
	snd, ok := c.inputs["audio"].(sound)
	if !ok {
		return result{}, &nodeError{kind: "TypeError", text: pythonType(c.inputs["audio"]) + " object is not audio"}
	}
	at, err := c.place(kind, prefix, 0, 0)
	if err != nil {
		return result{}, err
	}
	ending := "_.wav"
	if c.r.p.s.opts.Generation >= V0_33_0 {
		ending = ".wav"
	}
	item, err := at.write("0", ending, encodeWAV(snd))
	if err != nil {
		return result{}, err
	}
	return result{ui: obj("audio", []any{item})}, nil
}

func encodeWAV(snd sound) []byte {
	size := uint32(2 * len(snd.samples))
	b := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, 36+size)...)
	b = append(b, "WAVEfmt "...)
	for _, v := range []uint32{16, 1 | 1<<16, uint32(snd.rate), uint32(2 * snd.rate), 2 | 16<<16} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = append(b, "data"...)
	b = binary.LittleEndian.AppendUint32(b, size)
	for _, v := range snd.samples {
		v = math.Max(-1, math.Min(1, v))
		b = binary.LittleEndian.AppendUint16(b, uint16(int16(v*math.MaxInt16)))
	}
	return b
}
