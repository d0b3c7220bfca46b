package nodelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// queryTimeout is how long an answer may take.
const queryTimeout = 30 * time.Second

// Serve answers services' logs; dir is where services that do not log to the journal keep files.
func Serve(w http.ResponseWriter, r *http.Request, dir string, n *Query) {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
	var journal, files []string
	for _, s := range n.Services {
		if inJournal(ctx, s) {
			journal = append(journal, s)
		} else {
			files = append(files, s)
		}
	}
	if len(journal) > 0 {
		queryJournal(ctx, w, n.args(journal))
	}
	if len(files) > 0 && n.Options != (Options{}) {
		fmt.Fprintf(w, "\noptions present and query resolved to log files for %v\ntry without specifying options\n",
			files)
		return
	}
	for _, s := range files {
		copyFile(w, dir, s)
	}
}

// inJournal tells whether the journal has a line of the service.
func inJournal(ctx context.Context, service string) bool {
	out, err := exec.CommandContext(ctx, "journalctl", "--unit="+service, "--lines=1", "--no-pager",
		"--quiet").CombinedOutput()
	return err == nil && len(out) > 0
}

func queryJournal(ctx context.Context, w io.Writer, args []string) {
	cmd := exec.CommandContext(ctx, "journalctl", args...)
	cmd.Stdout, cmd.Stderr = w, w
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		fmt.Fprintf(w, "\nerror: journal output not available\n")
	}
}

// copyFile looks for service, service.log and service/service.log, in this order. Nothing outside
// the directory is read.
func copyFile(w io.Writer, dir, service string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		fmt.Fprintf(w, "\nerror getting log for %s: %v\n", service, err)
		return
	}
	defer root.Close()
	for _, name := range []string{service, service + ".log", service + "/" + service + ".log"} {
		info, err := root.Stat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			continue
		}
		f, err := root.Open(name)
		if err == nil {
			_, err = io.Copy(w, f)
			_ = f.Close()
		}
		if err != nil {
			fmt.Fprintf(w, "\nerror getting log for %s: %v\n", service, err)
		}
		return
	}
	fmt.Fprintf(w, "\nlog not found for %s\n", service)
}
