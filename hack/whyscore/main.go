// Command whyscore runs the fixtures of test/fixtures/why, with fake nodes and with a real one as
// each needs, against the built gantry and prints what `gantry why` scores, 0 to 4 points each.
//
//	whyscore [-run REGEXP] [-needs runtime] [-v] [-remedies N] [-every] [-fixtures DIR]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/gantry-project/gantry/test/replay/why"
)

func main() {
	only := flag.String("run", "", "regular expression of the fixtures")
	needs := flag.String("needs", "", "only fixtures that need this: fake-nodes, several-nodes, runtime")
	first := flag.Int("number", 80, "number of the first instance: tells those on one machine apart")
	dir := flag.String("fixtures", "test/fixtures/why", "directory of the fixtures")
	binary := flag.String("gantry", "build/bin/gantry", "gantry under test")
	verbose := flag.Bool("v", false, "print the answers")
	remedies := flag.Int("remedies", 3, "printed remedies to try per fixture")
	every := flag.Bool("every", false, "try all printed remedies, not only until one helps")
	parallel := flag.Int("parallel", 3, "fixtures at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, selection{*dir, *only, *needs}, *parallel, *verbose, why.Options{Binary: *binary, Number: *first,
		Remedies: *remedies, Every: *every})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "whyscore:", err)
		os.Exit(1)
	}
}

// selection says which fixtures are run.
type selection struct{ dir, only, needs string }

func run(ctx context.Context, c selection, parallel int, verbose bool, o why.Options) error {
	re, err := regexp.Compile(c.only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	fixtures, err := why.Load(c.dir, re)
	if err != nil {
		return err
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		slots = make(chan int, parallel)
		total int
		all   int
	)
	for i := range parallel {
		slots <- o.Number + i
	}
	for _, f := range fixtures {
		if c.needs != "" && f.Needs != c.needs {
			continue
		}
		all += 4
		number := <-slots
		wg.Go(func() {
			own := o
			own.Number = number
			s := why.Run(ctx, own, f)
			slots <- number
			mu.Lock()
			defer mu.Unlock()
			total += s.Points()
			report(s, verbose)
		})
	}
	wg.Wait()
	fmt.Printf("%d of %d points\n", total, all)
	return nil
}

func report(s why.Score, verbose bool) {
	fmt.Printf("%d  %s", s.Points(), s.Name)
	if s.Err != nil {
		fmt.Printf("  not judged: %v", s.Err)
	}
	if len(s.Missing) > 0 {
		fmt.Printf("  missing: %s", strings.Join(s.Missing, "; "))
	}
	if len(s.Claimed) > 0 {
		fmt.Printf("  wrongly claimed: %s", strings.Join(s.Claimed, "; "))
	}
	fmt.Println()
	for _, t := range s.Tried {
		if verbose || !s.Remedy || len(s.Ineffective) > 0 {
			fmt.Println("     " + t)
		}
	}
	if verbose {
		fmt.Println("     " + strings.ReplaceAll(s.Answer.Text, "\n", "\n     "))
	}
}
