package cli

import (
	"fmt"
	"log/slog"
	"os"
)

// logger returns where diagnostics of the inside go: as JSON to a file, as text to standard error, or nowhere.
func (p *program) logger(verbose bool, file string) (l *slog.Logger, closeFile func() error, err error) {
	var handlers []slog.Handler
	closeFile = func() error { return nil }
	if file != "" {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, fmt.Errorf("open the log file: %w", err)
		}
		closeFile = f.Close
		handlers = append(handlers, slog.NewJSONHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if verbose {
		handlers = append(handlers, slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	if handlers == nil {
		return nil, closeFile, nil
	}
	return slog.New(slog.NewMultiHandler(handlers...)), closeFile, nil
}
