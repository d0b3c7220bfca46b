package blocks

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
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

const svgStyle = `<style>
text{font:12px system-ui,sans-serif;fill:#16191d} .t{font-weight:600} .q{fill:#545c66} line{stroke:#d5d9df}
.track{fill:#e7eaee} .asked{fill:#7fb2e5} .used{fill:#0b5cad} .bad{fill:#c0262d}
.unscheduled{fill:none;stroke:#8a5bd6;stroke-width:3} .starting{fill:none;stroke:#2f81d8;stroke-width:3}
.notready{fill:none;stroke:#d98a00;stroke-width:3} .ready{fill:#2e9e63} .failing{fill:#d3353c} .ending{fill:#7b8794}
.succeeded{fill:#9bc9ae} .failed{fill:#8f1d22} .unknown{fill:#55606b}
@media (prefers-color-scheme:dark){text{fill:#e8ebef} .q{fill:#a5afba} line{stroke:#343b45} .track{fill:#262c34}}
</style>
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
	var b strings.Builder
	y := 44
	for i, s := range states {
		if counts[s.state] > 0 {
			x := 8 + i*106
			fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="10" height="10"/>`+
				`<text x="%d" y="%d">%d %s</text>`+"\n", s.state, x, y-10, x+16, y-1, counts[s.state], s.state)
		}
	}
	y += 12
	if free := rows[""]; len(free) > 0 {
		y = drawRow(&b, y, Node{}, free)
	}
	for _, n := range nodes {
		p.drawBars(&b, y, n, rows[n.Name])
		y = drawRow(&b, y, n, rows[n.Name])
	}
	title := fmt.Sprintf("%d nodes, %d Pods", len(nodes), len(p.Pods))
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`role="img" aria-label="%s">`+"\n%s"+`<text class="t" x="8" y="20">%s: requested (light) and used (dark) of `+
		"what is allocatable</text>\n%s</svg>\n", svgWidth, y+8, svgWidth, y+8, title, svgStyle, title, b.String())
	return err
}

// drawRow draws the name of a node and its Pods, and returns where the next row begins.
func drawRow(b *strings.Builder, y int, n Node, pods []Pod) int {
	name, class := n.Name, "t"
	switch {
	case name == "":
		name = fmt.Sprintf("No node yet: %d", len(pods))
	case !n.Ready:
		name, class = name+", not ready", "t bad"
	case n.Cordoned:
		name, class = name+", cordoned", "t bad"
	}
	fmt.Fprintf(b, `<line x1="0" y1="%d" x2="%d" y2="%d"/><text class="%s" x="8" y="%d">%s</text>`+"\n", y, svgWidth, y,
		class, y+18, html.EscapeString(name))
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for i, p := range pods {
		title := fmt.Sprintf("%s/%s: %s", p.Namespace, p.Name, p.State)
		if p.WaitsFor != "" {
			title += ", waits for " + p.WaitsFor
		}
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="11" height="11"><title>%s</title></rect>`, p.State,
			svgLeft+i%svgAcross*svgBlock, y+9+i/svgAcross*svgBlock, html.EscapeString(title))
	}
	lines := (len(pods) + svgAcross - 1) / svgAcross
	height := 20 + lines*svgBlock
	if n.Name != "" {
		height = max(height, svgHead)
	}
	return y + height
}

// drawBars draws what is requested and used of a node.
func (p Picture) drawBars(b *strings.Builder, y int, n Node, pods []Pod) {
	var asked Used
	for _, x := range pods {
		if x.State != Succeeded && x.State != Failed {
			asked.CPU, asked.Memory = asked.CPU+x.CPU, asked.Memory+x.Memory
		}
	}
	used, known := p.Used[n.Name]
	share := func(part, all int64) int { return int(min(svgBar, svgBar*part/max(all, 1))) }
	bar := func(y int, label string, asked, used, all int64) {
		fmt.Fprintf(b, `<rect class="track" x="8" y="%d" width="%d" height="10"/>`, y, svgBar)
		fmt.Fprintf(b, `<rect class="asked" x="8" y="%d" width="%d" height="10"/>`, y, share(asked, all))
		if known {
			fmt.Fprintf(b, `<rect class="used" x="8" y="%d" width="%d" height="4"/>`, y+3, share(used, all))
		}
		fmt.Fprintf(b, `<text class="q" x="%d" y="%d">%s</text>`+"\n", svgBar+16, y+9, label)
	}
	bar(y+26, fmt.Sprintf("cores %s of %s", milli(asked.CPU), milli(n.CPU)), asked.CPU, used.CPU, n.CPU)
	bar(y+43, fmt.Sprintf("memory %s of %s", bytes(asked.Memory), bytes(n.Memory)), asked.Memory, used.Memory, n.Memory)
}

func milli(n int64) string { return resource.NewMilliQuantity(n, resource.DecimalSI).String() }

func bytes(n int64) string { return fmt.Sprintf("%.1fGi", float64(n)/(1<<30)) }
