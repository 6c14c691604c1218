package main

import (
	"fmt"
	"image/color"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// line is one curve: a number for each window. Where it is not a number there is a gap.
type line struct {
	name string
	of   func(Window) float64
	tint color.Color
}

const (
	windowSeconds = 1.0 / windowsPerSecond
	plotWidth     = 26 * vg.Centimeter
	paneHeight    = 7 * vg.Centimeter
)

var (
	blue   = color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	orange = color.RGBA{R: 0xff, G: 0x7f, B: 0x0e, A: 0xff}
	green  = color.RGBA{R: 0x2c, G: 0xa0, B: 0x2c, A: 0xff}
	red    = color.RGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff}
	grey   = color.RGBA{R: 0x9a, G: 0x9a, B: 0x9a, A: 0xff}

	// From the class that is served first to the last one.
	classTints = []color.Color{
		red, orange, color.RGBA{R: 0xd8, G: 0xb0, A: 0xff}, green,
		color.RGBA{R: 0x17, G: 0xbe, B: 0xcf, A: 0xff}, blue,
		color.RGBA{R: 0x94, G: 0x67, B: 0xbd, A: 0xff}, grey,
	}
)

// drawRun draws a run into a PNG: four panes over one axis of time.
func drawRun(path, title string, report *Report) error {
	rate := func(of func(Window) float64) func(Window) float64 {
		return func(w Window) float64 { return of(w) * windowsPerSecond }
	}
	panes := []*plot.Plot{
		pane(report, title, "requests/s", []line{
			{"offered", rate(func(w Window) float64 { return w.Offered }), grey},
			{"the store could take", rate(func(w Window) float64 { return w.Capacity }), orange},
			{"good answers", rate(func(w Window) float64 { return w.Good }), green},
		}),
		pane(report, "", "requests", []line{
			{"held", func(w Window) float64 { return w.Held }, grey},
			{"limit", func(w Window) float64 { return w.Limit }, blue},
			{"in flight", func(w Window) float64 { return w.Inflight }, orange},
		}),
		pane(report, "", "ms", []line{
			{"p99 with hold", func(w Window) float64 { return ms(w.TotalP99NS) }, red},
			{"p99 of slots", func(w Window) float64 { return ms(w.SlotP99NS) }, orange},
			{"p50 of slots", func(w Window) float64 { return ms(w.SlotP50NS) }, blue},
			{"hold bound", func(w Window) float64 { return w.HoldBoundNS / 1e6 }, grey},
		}),
		pane(report, "", "shed/s", shedLines(report, rate)),
	}
	panes[len(panes)-1].X.Label.Text = "s"
	height := paneHeight * vg.Length(len(panes))
	canvas := vgimg.NewWith(vgimg.UseWH(plotWidth, height), vgimg.UseDPI(96))
	grid := make([][]*plot.Plot, len(panes))
	for i, p := range panes {
		grid[i] = []*plot.Plot{p}
	}
	tiles := draw.Tiles{Rows: len(panes), Cols: 1, PadY: vg.Millimeter, PadRight: plotWidth / 6}
	for i, row := range plot.Align(grid, tiles, draw.New(canvas)) {
		panes[i].Draw(row[0])
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(file); err != nil {
		_ = file.Close() // the first error is the one to tell
		return fmt.Errorf("draw %s: %w", path, err)
	}
	return file.Close()
}

// shedLines are the classes of which any was shed.
func shedLines(report *Report, rate func(func(Window) float64) func(Window) float64) []line {
	var lines []line
	for class, name := range report.Classes {
		if report.ClassShed[class] > 0 {
			of := rate(func(w Window) float64 { return w.Shed[class] })
			lines = append(lines, line{name, of, classTints[class%len(classTints)]})
		}
	}
	return lines
}

func pane(report *Report, title, unit string, lines []line) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Y.Label.Text = unit
	p.Y.Min = 0
	p.X.Min, p.X.Max = 0, float64(len(report.Windows))*windowSeconds
	p.Legend.Top = true
	p.Legend.XOffs = plotWidth / 6 // beside the curves, in the margin of the tiles
	p.Add(plotter.NewGrid())
	for _, l := range lines {
		var points plotter.XYs
		named := false
		flush := func() {
			if len(points) == 0 {
				return
			}
			curve, err := plotter.NewLine(points)
			if err != nil { // only points that are no numbers, and there are none
				panic(err)
			}
			curve.Color, curve.Width = l.tint, vg.Points(1)
			p.Add(curve)
			if !named {
				p.Legend.Add(l.name, curve)
				named = true
			}
			points = nil
		}
		for i, window := range report.Windows {
			if y := l.of(window); !math.IsNaN(y) {
				points = append(points, plotter.XY{X: float64(i+1) * windowSeconds, Y: y})
			} else {
				flush()
			}
		}
		flush()
	}
	return p
}

func ms(ns *float64) float64 {
	if ns == nil {
		return math.NaN()
	}
	return *ns / 1e6
}
