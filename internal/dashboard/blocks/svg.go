package blocks

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/svg"
)

// Used is what Pods of a node take: milli-cores and bytes.
type Used struct{ CPU, Memory int64 }

// Picture is nodes and Pods as they are drawn. Used is by node; a node that is not in it tells
// nothing.
type Picture struct {
	Nodes []Node
	Pods  []Pod
	Used  map[string]Used
}

// Sizes of the picture, in pixels, and how many Pods stand in a line.
const (
	svgWidth, svgLeft, svgBlock, svgAcross = 1000, 330, 15, 43
	svgBar, svgHead                        = 150, 62
)

const svgStyle = `text.t{font-size:12px} .track{fill:#e7eaee} .asked{fill:#7fb2e5} .used{fill:#0b5cad}
.unscheduled{fill:none;stroke:#8a5bd6;stroke-width:3} .starting{fill:none;stroke:#2f81d8;stroke-width:3}
.notready{fill:none;stroke:#d98a00;stroke-width:3} .ready{fill:#2e9e63} .failing{fill:#d3353c} .ending{fill:#7b8794}
.succeeded{fill:#9bc9ae} .failed{fill:#8f1d22} .unknown{fill:#55606b}
@media (prefers-color-scheme:dark){.track{fill:#262c34}}
`

// WriteSVG draws each node with what is requested and used of its cores and memory, and its Pods as
// blocks, coloured by their states; those without a node first.
func (p Picture) WriteSVG(w io.Writer) error {
	rows, counts := map[string][]Pod{}, map[State]int{}
	for _, x := range p.Pods {
		rows[x.Node] = append(rows[x.Node], x)
		counts[x.State]++
	}
	nodes := slices.SortedFunc(slices.Values(p.Nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	title := fmt.Sprintf("%d nodes, %d Pods", len(nodes), len(p.Pods))
	d := svg.Picture{Title: title, Style: svgStyle}
	d.Text("t", 8, 20, title+": requested (light) and used (dark) of what is allocatable")
	y := 44
	for i, s := range states {
		if counts[s.state] > 0 {
			x := 8 + i*106
			d.Rect(svg.Rect{X: x, Y: y - 10, Width: 10, Height: 10, Class: string(s.state)})
			d.Text("", x+16, y-1, fmt.Sprintf("%d %s", counts[s.state], s.state))
		}
	}
	y += 12
	if free := rows[""]; len(free) > 0 {
		y = drawRow(&d, y, Node{}, free)
	}
	for _, n := range nodes {
		p.drawBars(&d, y, n, rows[n.Name])
		y = drawRow(&d, y, n, rows[n.Name])
	}
	return d.Write(w, svgWidth, y+8)
}

// drawRow draws the name of a node and its Pods, and returns where the next row begins.
func drawRow(d *svg.Picture, y int, n Node, pods []Pod) int {
	name, class := n.Name, "t"
	switch {
	case name == "":
		name = fmt.Sprintf("No node yet: %d", len(pods))
	case !n.Ready:
		name, class = name+", not ready", "t no"
	case n.Cordoned:
		name, class = name+", cordoned", "t no"
	}
	d.Line(0, y, svgWidth, y)
	d.Text(class, 8, y+18, name)
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for i, p := range pods {
		title := fmt.Sprintf("%s/%s: %s", p.Namespace, p.Name, p.State)
		if p.WaitsFor != "" {
			title += ", waits for " + p.WaitsFor
		}
		d.Rect(svg.Rect{X: svgLeft + i%svgAcross*svgBlock, Y: y + 9 + i/svgAcross*svgBlock, Width: 11, Height: 11,
			Class: string(p.State), Title: title})
	}
	lines := (len(pods) + svgAcross - 1) / svgAcross
	height := 20 + lines*svgBlock
	if n.Name != "" {
		height = max(height, svgHead)
	}
	return y + height
}

// drawBars draws what is requested and used of a node.
func (p Picture) drawBars(d *svg.Picture, y int, n Node, pods []Pod) {
	var asked Used
	for _, x := range pods {
		if x.State != Succeeded && x.State != Failed {
			asked.CPU, asked.Memory = asked.CPU+x.CPU, asked.Memory+x.Memory
		}
	}
	used, known := p.Used[n.Name]
	share := func(part, all int64) int { return int(min(svgBar, svgBar*part/max(all, 1))) }
	bar := func(y int, label string, asked, used, all int64) {
		d.Rect(svg.Rect{X: 8, Y: y, Width: svgBar, Height: 10, Class: "track"})
		d.Rect(svg.Rect{X: 8, Y: y, Width: share(asked, all), Height: 10, Class: "asked"})
		if known {
			d.Rect(svg.Rect{X: 8, Y: y + 3, Width: share(used, all), Height: 4, Class: "used"})
		}
		d.Text("q", svgBar+16, y+9, label)
	}
	bar(y+26, fmt.Sprintf("cores %s of %s", milli(asked.CPU), milli(n.CPU)), asked.CPU, used.CPU, n.CPU)
	bar(y+43, fmt.Sprintf("memory %s of %s", bytes(asked.Memory), bytes(n.Memory)), asked.Memory, used.Memory, n.Memory)
}

func milli(n int64) string { return resource.NewMilliQuantity(n, resource.DecimalSI).String() }

func bytes(n int64) string { return fmt.Sprintf("%.1fGi", float64(n)/(1<<30)) }
