/** Light, dark, or as the system has it; a choice lasts as long as the tab. */
export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const THEME = "paddock-theme";

export function themeNow(): Theme {
	return THEMES.find((theme) => theme === sessionStorage.getItem(THEME)) ?? "system";
}

export function chooseTheme(theme: Theme): void {
	sessionStorage.setItem(THEME, theme);
	showTheme();
}

export function showTheme(): void {
	const theme = themeNow();
	if (theme === "system") delete document.documentElement.dataset.theme;
	else document.documentElement.dataset.theme = theme;
}
