package sizing

import (
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/svg"
)

// Sizes of the picture, in pixels, and how many containers it has at most.
const (
	svgWidth, svgLabel, svgBar, svgRow, svgMost = 1000, 260, 420, 24, 100
)

// svgStyle are the colours of a container's usage, request and limit, and of the parts of a node.
const svgStyle = `.usual{fill:#2f81d8} .peak{fill:#a9cdf0} .request{fill:#3f9b5f} .limit{fill:#d3353c}
.allocatable{fill:#3f9b5f} .kube{fill:#8a5bd6} .system{fill:#2f81d8} .eviction{fill:#d98a00}
`

// Picture is advice as it is drawn. Node may be nil.
type Picture struct {
	Containers []Advice
	Node       *NodeAdvice
}

// WriteSVG draws each container's usage up to the 95th percentile and up to the most, with marks at
// request and limit; and how a node's cores and memory are shared out.
func (p Picture) WriteSVG(w io.Writer) error {
	d := svg.Picture{Title: fmt.Sprintf("What %d containers take and should request", len(p.Containers)),
		Style: svgStyle}
	if len(p.Containers) == 0 {
		d.Title = "What a node of this size should reserve"
	}
	d.Text("t", 8, 20, d.Title)
	y := 32
	if len(p.Containers) > 0 {
		d.Text("q", 8, y+8, "dark: up to the 95th percentile; light: up to the most; green: request; red: limit")
		y += svgRow
	}
	for i, a := range p.Containers {
		if i == svgMost {
			d.Text("q", 8, y+12, fmt.Sprintf("and %d more", len(p.Containers)-i))
			y += svgRow
			break
		}
		d.Line(8, y-2, svgWidth-8, y-2)
		d.Text("", 8, y+14, svg.Shorten(a.String(), 38))
		for _, r := range []sized{{"cpu", a.CPU, a.Request.CPU, a.Limit.CPU},
			{"memory", a.Memory, a.Request.Memory, a.Limit.Memory}} {
			if r.request == nil {
				continue
			}
			r.draw(&d, y)
			text := r.name + ": request " + r.request.String()
			if r.limit != nil {
				text += ", limit " + r.limit.String()
			}
			d.Text("q", svgLabel+svgBar+12, y+14, text)
			y += svgRow
		}
	}
	if p.Node != nil {
		y = p.Node.draw(&d, y+svgRow/2)
	}
	return d.Write(w, svgWidth, y+8)
}

// sized is one resource of a container; the limit may be nil.
type sized struct {
	name           string
	used           Stats
	request, limit *resource.Quantity
}

// draw draws it with the top at y.
func (r sized) draw(d *svg.Picture, y int) {
	used, request := r.used, r.request.AsApproximateFloat64()
	most := max(used.Max, request, 1e-9)
	if r.limit != nil {
		most = max(most, r.limit.AsApproximateFloat64())
	}
	wide := func(n float64) int { return int(svgBar * n / most) }
	d.Rect(svg.Rect{X: svgLabel, Y: y + 3, Width: max(1, wide(used.Max)), Height: 14, Class: "peak"})
	d.Rect(svg.Rect{X: svgLabel, Y: y + 3, Width: max(1, wide(used.P95)), Height: 14, Class: "usual"})
	mark := func(x int, class string) {
		d.Rect(svg.Rect{X: svgLabel + x, Y: y, Width: 3, Height: 20, Class: class})
	}
	mark(wide(request), "request")
	if r.limit != nil {
		mark(wide(r.limit.AsApproximateFloat64())-3, "limit")
	}
}

// draw draws the parts of the node's cores and memory from y down, and returns where the next row
// may begin. What eviction keeps free is between what is allocatable and what the system takes.
func (n NodeAdvice) draw(d *svg.Picture, y int) int {
	for _, r := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		capacity := n.Size.Capacity()[r]
		all := max(capacity.AsApproximateFloat64(), 1e-9)
		d.Line(8, y-2, svgWidth-8, y-2)
		d.Text("t", 8, y+14, fmt.Sprintf("the node's %s: %s", r, capacity.String()))
		x, rest := svgLabel, all
		part := func(class, name string, amount float64, text string) {
			wide := max(1, int(svgBar*amount/all))
			d.Rect(svg.Rect{X: x, Y: y + 2, Width: wide, Height: 16, Class: class, Title: name + " " + text})
			x, rest = x+wide, rest-amount
		}
		free := n.Allocatable[r]
		part("allocatable", "allocatable", free.AsApproximateFloat64(), free.String())
		text := "allocatable " + free.String()
		for _, x := range []struct {
			class, name string
			from        map[string]string
		}{{"kube", "kubeReserved", n.Kube}, {"system", "systemReserved", n.System}} {
			q, err := resource.ParseQuantity(x.from[string(r)])
			if err != nil {
				continue // nothing is kept of it
			}
			part(x.class, x.name, q.AsApproximateFloat64(), q.String())
			text += ", " + x.name + " " + q.String()
		}
		if rest > all/1000 {
			part("eviction", "kept free by eviction", rest, "")
		}
		d.Text("q", svgLabel, y+32, text)
		y += 2 * svgRow
	}
	return y
}
