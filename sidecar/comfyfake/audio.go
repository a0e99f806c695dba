package comfyfake

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
)

// sound is the value of an AUDIO slot: samples in -1..1, which all channels
// share.
type sound struct {
	rate, channels int
	samples        []float64
}

func audioClasses(g Generation) []*class {
	newer := g >= V0_33_0
	limits := either(g, []any{"min", 1, "max", 192000, "advanced", true}, nil)
	more := either(g, []any{"advanced", true}, nil)
	return []*class{
		{name: "EmptyAudio", display: "Empty Audio", category: "audio", module: "comfy_extras.nodes_audio", schema: newer, aliases: []string{"blank audio"}, method: either(g, "", "create_empty_audio"),
			required: []input{{name: "duration", kind: "FLOAT", options: obj("default", 60.0, "min", 0.0, "max", uint64(math.MaxUint64), "step", 0.01)},
				{name: "sample_rate", kind: "INT", options: obj(append([]any{"default", 44100}, limits...)...)},
				{name: "channels", kind: "INT", options: obj(append([]any{"default", 2, "min", 1, "max", 2}, more...)...)}},
			outputs: []string{"AUDIO"}, outputNames: []string{"AUDIO"}, outputTips: []any{nil}, run: runEmptyAudio},
		{name: "SaveAudio", display: either(g, "Save Audio (FLAC) (DEPRECATED)", "Save Audio (FLAC)"), category: "audio", module: "comfy_extras.nodes_audio",
			schema: newer, aliases: []string{"export flac"}, essentials: "Audio", method: either(g, "", "save_flac"), outputTips: []any{nil},
			required: []input{{name: "audio", kind: "AUDIO", options: either(g, obj(), nil)}, {name: "filename_prefix", kind: "STRING", options: obj("default", "audio/ComfyUI")}},
			hidden:   hiddenMeta(), outputNode: true, outputs: []string{"AUDIO"}, outputNames: []string{"AUDIO"}, run: runSaveFLAC},
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
	out := sound{rate: rate, channels: 1, samples: make([]float64, n)}
	for i := range out.samples {
		t := float64(i) / rate
		fade := math.Min(1, math.Min(t/0.02, (c.number("seconds")-t)/0.2)) * math.Exp(-1.5*t)
		for k, ratio := range []float64{1, 1.25, 1.5, 2} {
			out.samples[i] += 0.2 * fade / float64(k+1) * math.Sin(2*math.Pi*c.number("frequency")*ratio*t)
		}
	}
	return one(out), nil
}

// maxSamples bounds the memory of one sound.
const maxSamples = 1 << 24

// runEmptyAudio fails as an allocator does at a clip that has no room.
func runEmptyAudio(c *call) (result, error) {
	n := math.Round(c.number("duration") * float64(c.integer("sample_rate")))
	if n < 0 || n > maxSamples {
		return result{}, &nodeError{kind: "RuntimeError", text: fmt.Sprintf("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried to allocate %.0f bytes.", 4*n*float64(c.integer("channels")))}
	}
	return one(sound{rate: int(c.integer("sample_rate")), channels: int(c.integer("channels")), samples: make([]float64, int(n))}), nil
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
		return one(sound{rate: 8000, channels: 1, samples: make([]float64, 4000)}), nil
	}
	out := sound{rate: int(binary.LittleEndian.Uint32(data[24:])), channels: max(1, int(binary.LittleEndian.Uint16(data[22:])))}
	for i := wavHead; i+1 < len(data); i += 2 * out.channels {
		out.samples = append(out.samples, float64(int16(binary.LittleEndian.Uint16(data[i:])))/math.MaxInt16)
	}
	return one(out), nil
}

func runSaveWAV(c *call) (result, error) {
	return c.saveSound("output", c.text("filename_prefix"), ".wav", encodeWAV)
}

func runSaveFLAC(c *call) (result, error) {
	return c.saveSound("output", c.text("filename_prefix"), ".flac", encodeFLAC)
}

func runPreviewAudio(c *call) (result, error) {
	return c.saveSound("temp", c.r.p.temp, ".wav", encodeWAV)
}

// saveSound writes 16 bits a sample; the newer generation has no underscore
// behind the number.
func (c *call) saveSound(kind, prefix, ending string, encode func(sound) []byte) (result, error) {
	snd, ok := c.inputs["audio"].(sound)
	if !ok {
		return result{}, &nodeError{kind: "TypeError", text: pythonType(c.inputs["audio"]) + " object is not audio"}
	}
	at, err := c.place(kind, prefix, 0, 0)
	if err != nil {
		return result{}, err
	}
	item, err := at.write("0", either(c.r.p.s.opts.Generation, "", "_")+ending, encode(snd))
	if err != nil {
		return result{}, err
	}
	return result{values: []any{snd}, ui: obj("audio", []any{item})}, nil
}

// sample is a value of -1..1 in 16 bits.
func sample(v float64) int16 { return int16(max(-1, min(1, v)) * math.MaxInt16) }

func encodeWAV(snd sound) []byte {
	frame := 2 * snd.channels
	size := uint32(frame * len(snd.samples))
	b := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, 36+size)...)
	b = append(b, "WAVEfmt "...)
	for _, v := range []uint32{16, 1 | uint32(snd.channels)<<16, uint32(snd.rate), uint32(frame * snd.rate), uint32(frame) | 16<<16} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = append(b, "data"...)
	b = binary.LittleEndian.AppendUint32(b, size)
	for _, v := range snd.samples {
		for range snd.channels {
			b = binary.LittleEndian.AppendUint16(b, uint16(sample(v)))
		}
	}
	return b
}
