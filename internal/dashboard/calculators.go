package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/gantry-project/gantry/internal/cli"
)

// Calculator is one question of the kind *what if*: its form, and the function that answers. The
// page draws any of them; a new one needs no code of its own there.
type Calculator struct {
	Name   string  `json:"name"` // in its address
	Title  string  `json:"title"`
	About  string  `json:"about"`
	Fields []Field `json:"fields"`
	// answer gets the fields' values by name; text of a slider is its number.
	answer func(ctx context.Context, a question, values map[string]string) (Forecast, error)
}

// Field is one input. A range has Min, Max and Step; a choice Options; else it is a text.
type Field struct {
	Name    string   `json:"name"`
	Label   string   `json:"label"`
	Unit    string   `json:"unit,omitempty"`
	Kind    string   `json:"kind"` // kindRange, kindChoice, kindText
	Min     float64  `json:"min"`
	Max     float64  `json:"max"`
	Step    float64  `json:"step,omitempty"`
	Options []string `json:"options,omitempty"`
	Default string   `json:"default"`
	// Suggest is what GET /api/suggest?of= lists for a text; the first stands in the field unless
	// it is Optional.
	Suggest  string `json:"suggest,omitempty"`
	Optional bool   `json:"optional,omitempty"`
}

// kinds of fields
const (
	kindRange  = "range"
	kindChoice = "choice"
	kindText   = "text"
)

// number reads a field that is a number within bounds.
func number(values map[string]string, name string, least, most float64) (float64, error) {
	n, err := strconv.ParseFloat(values[name], 64)
	if err != nil || !(n >= least && n <= most) {
		return 0, cli.UsageError(fmt.Errorf("%s is %q: must be a number between %g and %.0f", name, values[name], least,
			most))
	}
	return n, nil
}

// Forecast is what a calculator answers; each part may be empty.
type Forecast struct {
	Lines    []string `json:"lines,omitempty"`    // sentences, the arithmetic
	Timeline []Lane   `json:"timeline,omitempty"` // drawn over seconds
	Tables   []Table  `json:"tables,omitempty"`
	Copy     string   `json:"copy,omitempty"` // YAML or a command, to copy
	Troubles []string `json:"troubles,omitempty"`
}

// Lane is one row of a time line.
type Lane struct {
	Label string `json:"label"`
	Spans []Bar  `json:"spans"`
}

// Bar is a time in a lane, in seconds.
type Bar struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	State string  `json:"state"` // good, maybe, bad, idle
	Text  string  `json:"text"`
}

// Table is drawn as one.
type Table struct {
	Caption string     `json:"caption"`
	Head    []string   `json:"head"`
	Rows    [][]string `json:"rows"`
	Marked  int        `json:"marked"` // row to emphasise; -1: none
}

// Calculators are those of the page, in its order; one row each.
func Calculators() []Calculator {
	return []Calculator{
		drainCalculator(), rolloutCalculator(), evictionCalculator(), probesCalculator(), sizeCalculator(),
	}
}

// calculate answers POST /api/whatif/NAME, whose body is a JSON object of texts.
func (s *Server) calculate(w http.ResponseWriter, r *http.Request, who Identity) {
	var values map[string]string
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&values); err != nil {
		answerError(w, cli.UsageError(fmt.Errorf("the body is no JSON object of texts: %w", err)))
		return
	}
	for _, c := range Calculators() {
		if c.Name != r.PathValue("calculator") {
			continue
		}
		a, err := s.question(r, who)
		if err != nil {
			answerError(w, err)
			return
		}
		out, err := c.answer(r.Context(), a, values)
		if err != nil {
			answerError(w, err)
			return
		}
		out.Tables = slices.DeleteFunc(out.Tables, func(t Table) bool { return len(t.Rows) == 0 })
		writeJSON(w, out)
		return
	}
	writeError(w, http.StatusNotFound, failure{Error: "there is no calculator " + r.PathValue("calculator")})
}
